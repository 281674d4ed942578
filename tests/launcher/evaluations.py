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
from program_test import csv_text, idx, main


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
        names = ["dark", "light"]
        self.assertEqual(report["confusion_matrix"],
                         [[said.count((label, answer)) for answer in names] for label in names])
        text = self.evaluate("--per-class").stdout
        self.assertRegex(text, rf"^loss {report['loss']:.6f}  accuracy ")
        self.assertRegex(text, rf"(?m)^dark +{report['per_class'][0]['samples']} ")
        self.assertIn("confused   ", text)
        self.assertNotIn("recall", self.evaluate().stdout)

    def test_mirror_images_and_another_size(self):
        """What a validation of training says, evaluate says of the saved run, and without the
        flags it says something else."""
        result = self.train("--model=resnet20", "--image-size=16", "--steps=6", "--tta=flip",
                            "--eval-image-size=24", "--out=run", data="images:photos")
        self.assertEqual(result.returncode, 0, result.stderr)
        summary = self.summary("run")
        own = self.report()
        self.assertAlmostEqual(own["loss"], summary["val_loss"], places=12)
        losses = {self.report(*flags)["loss"] for flags in
                  ([], ["--tta=none"], ["--eval-image-size=16"],
                   ["--tta=none", "--eval-image-size=32"])}
        self.assertEqual(len(losses), 4)
        said = [line["class"] == line["file"].split("/")[2] for line in self.lines("photos/val")]
        self.assertAlmostEqual(own["accuracy"], sum(said) / len(said))
        self.expect_error(self.evaluate("--eval-image-size=0"), 2, "--eval-image-size")
        self.expect_error(self.evaluate("--tta=rotate"), 2, "--tta")
        flat = self.train_images("--steps=2", "--out=flat")
        self.assertEqual(flat.returncode, 0, flat.stderr)
        self.expect_error(self.evaluate("--eval-image-size=24", run="flat"), 2,
                          "--eval-image-size: for images of 24x24 the model's", "16x16")
        self.expect_error(self.train("--model=mlp", "--tta=flip", data="csv:x.csv"), 2, "--tta")

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

    def test_data_of_the_run_at_another_place(self):
        """Training samples are evaluated only where asked for."""
        text = self.write("text.txt", "the cat sat on the mat and the dog ran to the log. " * 40)
        for part in ("train", "val"):
            shutil.copytree(self.folder / "photos" / part, self.folder / "flat", dirs_exist_ok=True)
        for data, flags in ((f"csv:{self.table}", ["--val-fraction=0.3"]),
                            ("images:flat", ["--val-fraction=0.3", "--image-size=16"]),
                            (f"text:{text}", TextPredictions.GPT)):
            self.train_here("--steps=5", "--lr=0.01", "--force", *flags, data=data)
            own = self.timeless(self.report())
            kind, place = data.split(":")
            (self.folder / place).rename(self.folder / "moved")
            self.expect_error(self.evaluate(), 1, f"--data {kind}:PATH")
            moved = self.evaluate(f"--data={kind}:moved", "--json")
            self.assertEqual(moved.returncode, 0, moved.stderr)
            self.assertEqual(self.timeless(json.loads(moved.stdout)), own)
            self.assertIn("--val-fraction 1", moved.stderr)
            whole = self.report(f"--data={kind}:moved", "--val-fraction=1")
            self.assertGreater(whole["samples"], 2 * own["samples"])
            # Nobody knows without a checkpoint, and says so.
            shutil.rmtree(self.folder / "run/checkpoints")
            unknown = self.evaluate(f"--data={kind}:moved", "--json")
            self.assertEqual(unknown.returncode, 0, unknown.stderr)
            self.assertEqual(json.loads(unknown.stdout)["samples"], whole["samples"])
            self.assertIn("warning: ", unknown.stderr)
            (self.folder / "moved").rename(self.folder / "gone")
            shutil.rmtree(self.folder / "gone") if kind == "images" else os.remove(
                self.folder / "gone")
        self.table = self.write("table.csv", csv_text())
        self.train_here("--force", "--val-fraction=0.3")
        other = self.write("other.csv", csv_text(rows=31))
        self.assertEqual(self.report(f"--data=csv:{other}")["samples"], 31)

    def test_numbers_of_a_target_that_is_always_the_same(self):
        self.write("prices.csv", "a,price\n" + "".join(f"{i % 5},100.1\n" for i in range(49)))
        self.train_here("--task=regression", data="csv:prices.csv")
        target, = self.report("--data=csv:prices.csv", "--val-fraction=1")["targets"]
        self.assertIsNone(target["r2"])

    def test_flags_of_training_are_refused(self):
        self.train_here()
        for flag in ("--seed=4", "--samples=9", "--resume=auto", "--hidden=3"):
            self.expect_error(self.evaluate(flag), 2, flag.split("=")[0])

    def test_samples_that_nobody_evaluates(self):
        self.train_here(data="synthetic:8x8x3:4")
        for command, *files in (("evaluate",), ("predict", "table.csv")):
            result = self.run_command([self.program, command, "--from=run", *files])
            self.expect_error(result, 2, "synthetic")
            for advice in ("--val-fraction", "--data SOURCE"):
                self.assertNotIn(advice, result.stderr)

    def test_a_shorter_context(self):
        text = self.write("text.txt", "the cat sat on the mat and the dog ran to the log. " * 40)
        self.train_here(*TextPredictions.GPT, "--steps=10", data=f"text:{text}")
        own = self.report()
        short = self.report("--context=8")
        self.assertGreater(short["samples"], own["samples"])
        self.assertGreater(short["loss"], 0)
        self.expect_error(self.evaluate("--context=17"), 2, "--context 17", "16 positions")

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

    def test_bits_per_byte(self):
        text = self.write("text.txt", "the caf\u00e9 sat on the mat and the d\u20acg ran. " * 40)
        self.train_here(*TextPredictions.GPT, "--steps=10", data=f"text:{text}")
        report = self.report()
        # All characters of the last tenth but the first are targets.
        characters = text.read_text()
        targets = characters[int(len(characters) * 0.9):][1:]
        expected = report["loss"] * len(targets) / math.log(2) / len(targets.encode())
        self.assertAlmostEqual(report["bits_per_byte"], expected, places=12)
        self.assertIn(f"bits per byte {expected:.6f}", self.evaluate().stdout)
        summary = json.loads((self.folder / "run/summary.json").read_text())
        self.assertAlmostEqual(summary["val_bits_per_byte"], expected, places=5)

    def test_training_ends_with_the_classes(self):
        for i in range(3):
            self.write(f"photos/val/dark/light_{i}.png",
                       png(20, 18, lambda x, y, i=i: (150 + (x * y) % 100, i, x * 5)))
        result = self.train_images("--steps=30", "--lr=0.05", "--out=run", "--per-class")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"(?m)^dark +\d+ ")
        summary = json.loads((self.folder / "run/summary.json").read_text())
        report = self.report()
        for name in ("per_class", "confusions", "confusion_matrix"):
            self.assertEqual(summary["evaluation"][name], report[name])
        self.assertEqual(summary["steps"], 30)
        result = self.run_command([self.program, "report", "run"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("Confusion matrix", (self.folder / "run/report.html").read_text())
        text = self.write("text.txt", "the cat sat on the mat. " * 40)
        self.expect_error(self.train("--per-class", *TextPredictions.GPT, data=f"text:{text}"), 2,
                          "--per-class", "tokens have no classes")


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
        for key in ("samples", "accuracy", "per_class", "confusions", "confusion_matrix"):
            self.assertEqual(both[key], own[key], key)
        self.assertAlmostEqual(both["loss"], own["loss"], places=6)

    def mpirun(self, *parts):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", *root]
        return self.run_command(command + self.by_rank(*((ranks, [self.program, "evaluate", *arguments])
                                                         for ranks, arguments in parts)))

    def test_more_ranks_than_a_training_batch_has_parts(self):
        self.train_here("--steps=40", "--lr=0.3")
        own = self.report()
        for ranks in (3, 5):
            result = self.mpirun((ranks, ["--from=run", "--json"]))
            self.assertEqual(result.returncode, 0, result.stderr)
            many = json.loads(result.stdout)
            for key in ("samples", "accuracy", "per_class"):
                self.assertEqual(many[key], own[key], key)
            self.assertAlmostEqual(many["loss"], own["loss"], places=6)

    def test_ranks_take_the_checkpoint_that_rank_0_finds(self):
        """Of a run in training, whose newest checkpoint may be another a moment later."""
        self.train_here("--steps=40", "--lr=0.3", "--checkpoint-every=20", "--checkpoint-keep=9")
        (self.folder / "run/model.safetensors").unlink()
        shutil.copytree(self.folder / "run", self.folder / "earlier")
        newest = sorted((self.folder / "earlier/checkpoints").glob("step_*"))[-1]
        shutil.rmtree(newest)
        alone = self.report(run="earlier")
        self.assertNotEqual(self.report()["loss"], alone["loss"])
        result = self.mpirun((1, ["--from=earlier", "--json"]), (1, ["--from=run", "--json"]))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertAlmostEqual(json.loads(result.stdout)["loss"], alone["loss"], places=6)
        missing = self.mpirun((2, ["--from=nowhere"]))
        self.assertEqual(missing.stderr.count("nowhere/config.toml: no such file"), 1,
                         missing.stderr)


if __name__ == "__main__":
    main()
