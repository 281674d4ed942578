#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/mixing_goldens.inc: what torchvision's MixUp and CutMix make of a batch of small images.

usage: make_mixing_goldens.py      (needs torch and torchvision)

Lambda and the place of the box are given instead of drawn. Images are mixed as floats of 0 to 255, targets as one-hot
numbers; pixels are in the order [N, H, W, C]. torchvision keeps lambda in fp64, and the target's weights in fp32.
"""
import pathlib
from unittest import mock

import torch
import torchvision
from torchvision.transforms.v2 import CutMix, MixUp

FILE = pathlib.Path(__file__).parents[1] / "data/mixing_goldens.inc"
COUNT, HEIGHT, WIDTH, CHANNELS, CLASSES = 3, 5, 8, 3, 4


def images():
    generator = torch.Generator().manual_seed(7)
    return torch.randint(0, 256, (COUNT, CHANNELS, HEIGHT, WIDTH), generator=generator)


def mixed(transform, lam, places):
    """The batch, with Beta's draw `lam` and randint's draws `places`."""
    transform._dist = mock.Mock(sample=lambda _: torch.tensor(lam, dtype=torch.float64))
    draws, batch = iter(places), images().float()
    with mock.patch("torch.randint", lambda *_args, **_more: torch.tensor([next(draws)])):
        pixels, targets = transform(batch, torch.tensor([2, 0, 2]))
    return pixels.permute(0, 2, 3, 1).reshape(-1), targets.reshape(-1)


def quoted(pixels):
    text = bytes(pixels.tolist()).hex()
    lines = [text[i:i + 100] for i in range(0, len(text), 100)]
    return "\n  " + "\n  ".join(f'"{line}"' for line in lines)


def numbers(values):
    texts = [f"{float(value):.9g}" for value in values]
    lines = [", ".join(texts[i:i + 8]) for i in range(0, len(texts), 8)]
    return "\n  " + ",\n  ".join(lines)


def rows():
    yield "// Made by tests/reference/make_mixing_goldens.py."
    start = images().permute(0, 2, 3, 1).reshape(-1)
    yield f"GOLDEN_BATCH({COUNT}, {HEIGHT}, {WIDTH}, {CHANNELS}, {CLASSES}, {quoted(start)})"
    for lam in (0.0, 0.3125, 0.7, 1.0):
        pixels, targets = mixed(MixUp(num_classes=CLASSES), lam, [])
        yield f"GOLDEN_MIXUP({lam}, ({numbers(pixels)}), ({numbers(targets)}))"
    for lam, x, y in ((0.0, 3, 2), (0.1, 7, 0), (0.4, 0, 4), (0.75, 4, 2), (0.99, 5, 1), (1.0, 2, 2)):
        pixels, targets = mixed(CutMix(num_classes=CLASSES), lam, [x, y])
        yield f"GOLDEN_CUTMIX({lam}, {x}, {y}, {quoted(pixels.to(torch.uint8))}, ({numbers(targets)}))"


def main():
    FILE.write_text("\n".join(rows()) + "\n")
    print(f"{FILE.name}: torch {torch.__version__}, torchvision {torchvision.__version__}")


if __name__ == "__main__":
    main()
