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
    def data(self):
        """For each recipe, flags of data that stand for its own."""
        self.write("text.txt", "the quick brown fox jumps over the lazy dog. " * 400)
        self.write("tokens.bin", bytes(byte for token in range(5000) for byte in (token % 256, 0)))
        tokenize = [self.program, "tokenize", "text.txt", "--vocabulary=300", "--out=corpus"]
        if not (self.folder / "corpus").exists():
            self.assertEqual(self.run_command(tokenize).returncode, 0)
        return {"mnist": [f"--data={self.mnist()}"], "shakespeare-char": ["--data=text:text.txt"],
                "cifar10-fast": ["--data=images:photos", "--image-size=32"],
                "cifar10-resnet18": ["--data=images:photos", "--image-size=32"],
                "imagenet-resnet50": ["--data=images:photos"], "imagenet-vit-s16": ["--data=images:photos"],
                "gpt2-124m": ["--data=tokens:tokens.bin"], "llama-small": ["--data=tokens:corpus"],
                "fine-tune-resnet50": ["--data=images:photos"]}

    def run_recipe(self, command, name, *flags):
        result = self.run_command([self.program, command, f"--config={FOLDER / name}.toml", *flags])
        self.assertEqual(result.returncode, 0, f"{name}: {result.stderr}")

    def test_each_has_a_test(self):
        self.assertEqual({path.stem for path in FOLDER.glob("*.toml")}, set(self.data()))

    def test_each_trains_three_steps(self):
        further = {"imagenet-resnet50": ["--image-size=64"], "imagenet-vit-s16": ["--image-size=64"],
                   "gpt2-124m": ["--context=16"], "llama-small": ["--context=16"],
                   "fine-tune-resnet50": ["--image-size=64", "--init=runs/imagenet-resnet50/model.safetensors"],
                   "shakespeare-char": ["--decay-steps=2"]}
        for name, data in self.data().items():
            self.run_recipe("train", name, *data, *SMALL, *further.get(name, []), f"--out=runs/{name}")

    def test_each_fits_its_own_batch(self):
        for name, data in self.data().items():
            if name != "fine-tune-resnet50":  # needs its weights
                self.run_recipe("plan", name, *data, "--ranks=2")


if __name__ == "__main__":
    main()
