#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The files of examples/recipes: each is a training that starts, in small.

recipes.py PROGRAM Recipes
"""
import pathlib

from images import ImageTest
from program_test import main

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples/recipes"
# A batch that a processor has in seconds; everything else is the recipe's.
SMALL = ("--global-batch=4", "--micro-batch=2", "--steps=3", "--warmup-steps=1", "--eval-every=0", "--ranks=1")


class Recipes(ImageTest):
    def start(self, name, *flags):
        result = self.run_command([self.program, "train", f"--config={FOLDER / name}.toml", *SMALL,
                                   f"--out={name}", *flags])
        self.assertEqual(result.returncode, 0, f"{name}: {result.stderr}")

    def test_each_trains_three_steps(self):
        self.write("text.txt", "the quick brown fox jumps over the lazy dog. " * 400)
        self.write("tokens.bin", bytes(range(256)) * 40)
        flags = {"mnist": [f"--data={self.mnist()}"],
                 "shakespeare-char": ["--data=text:text.txt"],
                 "cifar10-resnet18": ["--data=images:photos", "--image-size=32"],
                 "imagenet-resnet50": ["--data=images:photos", "--image-size=64"],
                 "imagenet-vit-s16": ["--data=images:photos", "--image-size=64"],
                 "gpt2-124m": ["--data=tokens:tokens.bin", "--context=16", "--decay-steps=2"],
                 "fine-tune-resnet50": ["--data=images:photos", "--image-size=64",
                                        "--init=imagenet-resnet50/model.safetensors"]}
        self.assertEqual({path.stem for path in FOLDER.glob("*.toml")}, set(flags),
                         "recipes that no test starts, or that are gone")
        for name, further in flags.items():
            self.start(name, *further)

    def test_each_fits_its_own_batch(self):
        for path in sorted(FOLDER.glob("*.toml")):
            if path.stem == "fine-tune-resnet50":  # needs its weights
                continue
            result = self.run_command([self.program, "plan", f"--config={path}", "--ranks=2"])
            self.assertEqual(result.returncode, 0, f"{path.name}: {result.stderr}")


if __name__ == "__main__":
    main()
