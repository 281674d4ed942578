#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What lockstep evaluate says of labelled data.

evaluations.py PROGRAM Evaluations|EvaluationRanks
"""
import json
import math
import os
import re
import shutil

from images import ImageTest, png
from predictions import PredictionTest, TextPredictions
from program_test import idx, main


class EvaluationTest(ImageTest, PredictionTest):
    def evaluate(self, *arguments, run="run"):
        return self.run_command([self.program, "evaluate", f"--from={run}", *arguments])

    def report(self, *arguments, **options):
        result = self.evaluate("--json", *arguments, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def train_photos(self):
        """With light images among the dark ones, so that there are mistakes."""
        for i in range(3):
            self.write(f"photos/val/dark/light_{i}.png",
                       png(20, 18, lambda x, y, i=i: (150 + (x * y) % 100, i, x * 5)))
        result = self.train_images("--steps=30", "--lr=0.05", "--out=run")
        self.assertEqual(result.returncode, 0, result.stderr)

    def timeless(self, report):
        return {k: v for k, v in report.items() if k not in ("seconds", "samples_per_s")}


class Evaluations(EvaluationTest):
    def test_classes_are_counted_as_predict_says(self):
        self.train_photos()
        report = self.report()
        said = [(line["file"].split("/")[2], line["class"]) for line in self.lines("photos/val")]
        self.assertEqual(report["samples"], len(said))
        self.assertAlmostEqual(report["accuracy"], sum(a == b for a, b in said) / len(said))
        self.assertNotIn("top5", report)
        self.assertEqual([one["class"] for one in report["per_class"]], ["dark", "light"])
        for one in report["per_class"]:
            name = one["class"]
            samples = sum(label == name for label, _ in said)
            predicted = sum(answer == name for _, answer in said)
            right = sum((name, name) == pair for pair in said)
            self.assertEqual(one["samples"], samples)
            self.assertAlmostEqual(one["recall"], right / samples)
            self.assertEqual(one["precision"], right / predicted if predicted else None)
            self.assertAlmostEqual(one["f1"], 2 * right / (samples + predicted))
        confused = {(one["class"], one["predicted"]): one["samples"]
                    for one in report["confusions"]}
        self.assertEqual(confused, {pair: said.count(pair) for pair in said if pair[0] != pair[1]})
        self.assertTrue(confused)
        text = self.evaluate("--per-class").stdout
        self.assertRegex(text, rf"^loss {report['loss']:.6f}  accuracy ")
        self.assertRegex(text, rf"(?m)^dark +{report['per_class'][0]['samples']} ")
        self.assertIn("confused   ", text)
        self.assertNotIn("recall", self.evaluate().stdout)

    def test_any_labelled_folder(self):
        self.train_photos()
        own = self.timeless(self.report())
        shutil.copytree(self.folder / "photos/val", self.folder / "alone/val")
        self.assertEqual(self.timeless(self.report("--data=images:alone")), own)
        shutil.copytree(self.folder / "photos/val", self.folder / "flat")
        self.assertEqual(self.timeless(self.report("--data=images:flat")), own)
        shutil.copytree(self.folder / "photos/val/light", self.folder / "one/light")
        one = self.report("--data=images:one")
        self.assertEqual(one["samples"], own["per_class"][1]["samples"])
        self.assertAlmostEqual(one["accuracy"], own["per_class"][1]["recall"])
        self.expect_error(self.evaluate("--data=images:flat", "--image-size=9"), 2, "--image-size")
        self.write("flat/dark/bad.png", "no image")
        self.expect_error(self.evaluate("--data=images:flat"), 1, "flat/dark/bad.png")
        skipped = self.report("--data=images:flat", "--skip-bad-samples")
        self.assertEqual(skipped["skipped_samples"], 1)
        self.assertEqual(skipped["per_class"], own["per_class"])

    def test_weights_without_a_run(self):
        self.train_photos()
        own = self.timeless(self.report())

        def evaluate(*arguments, data="images:photos"):
            return self.run_command([self.program, "evaluate", "--init=run/model.safetensors",
                                     "--model=mlp", "--hidden=8", "--image-size=16", "--json",
                                     "--global-batch=16", "--micro-batch=8",
                                     f"--data={data}", *arguments])
        result = evaluate()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.timeless(json.loads(result.stdout)), own)
        shutil.copytree(self.folder / "photos/val", self.folder / "alone/val")
        result = evaluate(data="images:alone")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.timeless(json.loads(result.stdout)), own)
        shutil.copytree(self.folder / "photos/val/dark", self.folder / "alone/val/third")
        self.expect_error(evaluate(data="images:alone"), 1, "run/model.safetensors", "3 outputs",
                          "images:alone")
        self.expect_error(self.run_command([self.program, "evaluate",
                                            "--init=run/model.safetensors"]), 2, "--model")

    def test_top5(self):
        pixels = b"".join(bytes((i * 37 + 11 * (x // 5) * (i % 10)) % 256 for x in range(784))
                          for i in range(40))
        labels = idx(0x801, [40], bytes(i % 10 for i in range(40)))
        images = idx(0x803, [40, 28, 28], pixels)
        data = self.mnist(train_images_idx3_ubyte=images, train_labels_idx1_ubyte=labels,
                          t10k_images_idx3_ubyte=images, t10k_labels_idx1_ubyte=labels)
        self.train_here("--steps=3", "--lr=0.01", "--hidden=16", data=data)
        report = self.report()
        lines = self.predict("--count=0", "--top=5").stdout.splitlines()
        among = [bool(re.search(rf"[ ,] ?{line.split('  ')[1]} [\d.]+%", line.split("  ", 3)[3]) or
                      line.split("  ", 3)[3].startswith(line.split("  ")[1] + " "))
                 for line in lines]
        self.assertAlmostEqual(report["top5"], sum(among) / 40)
        self.assertGreater(report["top5"], report["accuracy"])

    def test_perplexity(self):
        text = self.write("text.txt", "the cat sat on the mat and the dog ran to the log. " * 40)
        self.train_here(*TextPredictions.GPT, "--steps=10", data=f"text:{text}")
        report = self.report()
        self.assertAlmostEqual(report["perplexity"], math.exp(report["loss"]))
        shown = re.search(r"perplexity (\S+)", self.evaluate().stdout)[1]
        self.assertAlmostEqual(float(shown), report["perplexity"], places=3)


class EvaluationRanks(EvaluationTest):
    def test_numbers_do_not_depend_on_the_ranks(self):
        self.train_photos()
        own = self.report()
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "2"]
        if os.geteuid() == 0:
            command.append("--allow-run-as-root")
        result = self.run_command(command + [self.program, "evaluate", "--from=run", "--json"])
        self.assertEqual(result.returncode, 0, result.stderr)
        both = json.loads(result.stdout)
        for key in ("samples", "accuracy", "per_class", "confusions"):
            self.assertEqual(both[key], own[key], key)
        self.assertAlmostEqual(both["loss"], own["loss"], places=6)


if __name__ == "__main__":
    main()
