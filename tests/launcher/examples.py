#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs examples that no document runs. $EXAMPLES is their folder.

examples.py PROGRAM Examples
"""
import json
import os
import pathlib
import re

from images import ImageTest
from program_test import main


class Examples(ImageTest):
    def example(self, name, *arguments):
        result = self.run_command([pathlib.Path(os.environ["EXAMPLES"]) / name, *arguments])
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_predict_says_what_the_command_says(self):
        result = self.train("--image-size=16", "--steps=20", "--lr=0.02", "--out=run",
                            data="images:photos")
        self.assertEqual(result.returncode, 0, result.stderr)
        files = sorted(str(p.relative_to(self.folder))
                       for p in self.folder.glob("photos/val/*/*.png"))
        lines = self.run_command([self.program, "predict", "--from=run", "--format=json", *files])
        said = [json.loads(line) for line in lines.stdout.splitlines()]
        self.assertEqual(len(said), len(files))
        self.assertEqual(self.example("predict", "run", "mlp", *files),
                         "".join(f"{one['file']}  {one['class']} {one['probability']:.4f}\n"
                                 for one in said))

    def test_own_data_are_trained_saved_and_asked(self):
        output = self.example("custom_dataset", "saved/rings")
        self.assertGreater(float(re.search(r"accuracy (\S+)", output)[1]), 0.98)
        inner, outer = map(float, re.search(r"inner (\S+), outer (\S+)", output).groups())
        self.assertGreater(inner, 0.9)  # the point is at a distance of 1
        self.assertAlmostEqual(inner + outer, 1, places=3)
        folder = self.folder / "saved/rings"
        self.assertEqual({p.name for p in folder.iterdir()},
                         {"model.safetensors", "preprocessing.json"})
        record = json.loads((folder / "preprocessing.json").read_text())
        self.assertEqual(record["class_names"], ["inner", "outer"])


if __name__ == "__main__":
    main()
