#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Early stop and the best checkpoint, through a resume too.

early_stopping.py PROGRAM EarlyStopping
"""
import json

from program_test import main
from resuming import Resuming


class EarlyStopping(Resuming):
    def test_early_stop_counts_on(self):
        # A rate that changes no weight: no validation after the first has a lower loss.
        flags = ("--lr=1e-30", "--lr-schedule=constant", "--eval-every=2", "--early-stop=3")
        whole = self.finish("--steps=1000", *flags, "--out=whole")
        self.assertEqual((self.summary("whole")["steps"], self.summary("whole")["lowest_val_step"]), (8, 2))
        self.assertIn("best validation was after step 2", whole.stdout)
        self.finish("--steps=5", *flags, "--out=run")  # validates after 2, 4 and 5 steps
        self.assertFalse(self.summary()["stopped_early"])
        result = self.go_on("--steps=1000")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.summary()["steps"], self.summary()["lowest_val_step"]), (6, 2))
        again = self.go_on("--steps=1000")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(self.summary()["steps"], 6)
        more = self.go_on("--steps=10", "--early-stop=0")
        self.assertEqual(more.returncode, 0, more.stderr)
        self.assertEqual(self.summary()["steps"], 10)
        self.expect_error(self.run_command(self.run_flags("--steps=10", "--early-stop=3", "--eval-every=0")),
                          2, "--early-stop", "--eval-every")

    def test_the_best_by_accuracy(self):
        flags = ("--lr=0.1", "--eval-every=1", "--early-stop=5", "--checkpoint-every=1000",
                 "--checkpoint-keep=1", "--best-by=accuracy")
        self.finish("--steps=200", *flags, "--out=run")
        lines = map(json.loads, (self.folder / "run/metrics.jsonl").read_text().splitlines())
        accuracy = {line["step"]: line["val_accuracy"] for line in lines if "val_accuracy" in line}
        best = max(accuracy, key=lambda step: (accuracy[step], -step))
        summary = self.summary()
        self.assertEqual(summary["lowest_val_step"] if summary["stopped_early"] else best, best)
        self.assertTrue((self.folder / f"run/checkpoints/step_{best:08}").exists())
        self.expect_error(self.go_on("--steps=300", "--best-by=loss"), 2, "best-by")


if __name__ == "__main__":
    main()
