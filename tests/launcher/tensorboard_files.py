#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TensorBoard's own reader against metrics.jsonl: fresh runs, runs that go on, rollbacks.

tensorboard_files.py PROGRAM TensorBoard

$TENSORBOARD_PYTHON is a Python that has the package tensorboard (default: this one). Exits with 77,
skipped, where it has not.
"""
import json
import os
import pathlib
import re
import struct
import subprocess
import sys

from program_test import ProgramTest, main

PYTHON = os.environ.get("TENSORBOARD_PYTHON") or sys.executable
PARTS = ("data", "copy", "forward", "backward", "comm_exposed", "optimizer", "device_wait", "logging",
         "checkpoint", "other")
READER = pathlib.Path(__file__).with_name("read_tensorboard.py")


def single(value):
    """As the file holds it."""
    return struct.unpack("f", struct.pack("f", value))[0]


class TensorBoard(ProgramTest):
    def shown(self, out="run"):
        result = self.run_command([PYTHON, READER, self.folder / out / "tensorboard"])
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def metrics(self, key, out="run"):
        lines = (self.folder / out / "metrics.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in lines]
        return [[r["step"], single(r[key])] for r in records
                if r.get(key) is not None and "rollback" not in r]

    def expect_metrics_shown(self):
        shown = self.shown()
        for tag, key in (("train/loss", "loss"), ("train/accuracy", "accuracy"),
                         ("train/lr", "lr"), ("train/grad_norm", "grad_norm"),
                         ("speed/samples_per_s", "samples_per_s"),
                         ("ledger/step_ms", "step_ms"),
                         *((f"ledger/{part}_ms", f"{part}_ms") for part in PARTS),
                         ("val/loss", "val_loss"), ("val/accuracy", "val_accuracy")):
            self.assertEqual(shown[tag], self.metrics(key), tag)
        return shown

    def test_a_run(self):
        result = self.train("--steps=40", "--log-every=10", "--eval-every=20", "--out=run",
                            "--noise-scale-every=2")
        self.assertEqual(result.returncode, 0, result.stderr)
        shown = self.expect_metrics_shown()
        self.assertTrue(shown["noise_scale/samples"])
        self.assertEqual(shown["noise_scale/samples"], self.metrics("noise_scale"))
        self.assertEqual([step for step, _ in shown["train/loss"]], [10, 20, 30, 40])
        self.assertEqual([step for step, _ in shown["val/loss"]], [20, 40])
        hparams = shown["hparams"]
        self.assertEqual({name: hparams["values"][name] for name in ("lr", "global-batch", "model")},
                         {"lr": 0.1, "global-batch": 16.0, "model": "mlp"})
        self.assertIn("min-lr", hparams["names"])
        self.assertNotIn("min-lr", hparams["values"])
        self.assertEqual(hparams["status"], 1)
        for tag in hparams["metrics"]:
            self.assertIn(tag, shown)
        self.assertEqual({tag for tag in shown for pattern in shown["charts"]["loss"]
                          if re.search(pattern, tag)}, {"train/loss", "val/loss"})

    def test_a_run_that_was_killed_and_goes_on(self):
        flags = ("--steps=60", "--log-every=5", "--eval-every=30", "--checkpoint-every=20",
                 "--out=run")
        # A second after the first lines, so that those of undone steps reach the file as well.
        faults = "rank=0,step=48,do=sleep:1.2;rank=0,step=53,do=kill"
        killed = self.train(*flags, environment={"LOCKSTEP_FAULT": faults})
        self.assertEqual(killed.returncode, -9, killed.stderr)
        self.assertEqual(self.shown()["train/loss"][-1][0], 50)
        self.assertIsNone(self.shown()["hparams"]["status"])
        result = self.train(*flags, "--resume=auto")
        self.assertEqual(result.returncode, 0, result.stderr)
        # Which step depends on how fast files are written: a save that is due waits for the one before.
        self.assertRegex(result.stdout, r"resume .*, [2-5]\d steps done")
        shown = self.expect_metrics_shown()
        self.assertEqual([step for step, _ in shown["train/loss"]], list(range(5, 61, 5)))
        self.assertEqual(len(list((self.folder / "run/tensorboard").iterdir())), 2)

    def test_a_rollback(self):
        fault = {"LOCKSTEP_FAULT": "rank=0,step=75,do=scale-batch:1000"}
        result = self.train("--steps=100", "--log-every=5", "--eval-every=0",
                            "--checkpoint-every=20", "--on-spike=rollback", "--out=run",
                            environment=fault)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("rollback from step 75", result.stdout)
        steps = [step for step, _ in self.shown()["train/loss"]]
        self.assertEqual(steps, list(range(5, 101, 5)))

    def test_none_where_none_is_wanted_and_none_of_an_earlier_run(self):
        self.assertEqual(self.train("--out=run").returncode, 0)
        self.assertEqual(len(list((self.folder / "run/tensorboard").iterdir())), 1)
        self.assertEqual(self.train("--out=run", "--force").returncode, 0)
        self.assertEqual(len(list((self.folder / "run/tensorboard").iterdir())), 1)
        self.assertEqual(self.train("--out=run", "--force", "--tensorboard=off").returncode, 0)
        self.assertFalse((self.folder / "run/tensorboard").exists())

    def test_a_folder_that_cannot_be_written_is_named_at_the_end(self):
        self.write("run/tensorboard", "mine")
        result = self.train("--out=run", "--force")
        self.expect_error(result, 1, "run/tensorboard", "Not a directory")
        self.assertTrue((self.folder / "run/model.safetensors").exists())
        self.assertEqual((self.folder / "run/tensorboard").read_text(), "mine")


if __name__ == "__main__":
    found = subprocess.run([PYTHON, "-c", "import tensorboard"], capture_output=True, check=False)
    if found.returncode != 0:
        print(f"skipped: {PYTHON} has no package tensorboard; $TENSORBOARD_PYTHON names one that has")
        sys.exit(77)
    main()
