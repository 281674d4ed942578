#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/augmentation_goldens.inc: what torchvision makes of two small images.

usage: make_augmentation_goldens.py      (needs torch and torchvision; tensors of uint8, transforms.v2.functional)

For every change of RandAugment and TrivialAugment some magnitudes, and what ColorJitter uses. Magnitudes and their signs
are computed as torchvision's RandAugment and TrivialAugmentWide do; pixels are in the order [H, W, C].
"""
import math
import pathlib

import torch
import torchvision
from torchvision.transforms.v2 import RandAugment, TrivialAugmentWide, functional

FILE = pathlib.Path(__file__).parents[1] / "data/augmentation_goldens.inc"
HEIGHT, WIDTH = 17, 18  # equalize leaves images of fewer than 256 pixels alone
# Change of random_changes.h and the name that torchvision has for it.
CHANGES = {"shear_x": "ShearX", "shear_y": "ShearY", "translate_x": "TranslateX", "translate_y": "TranslateY",
           "rotate": "Rotate", "brightness": "Brightness", "color": "Color", "contrast": "Contrast",
           "sharpness": "Sharpness", "posterize": "Posterize", "solarize": "Solarize",
           "autocontrast": "AutoContrast", "equalize": "Equalize"}


def image(channels):
    """A slope, a pattern and noise, so that no change leaves it alone and every channel has its own range."""
    generator = torch.Generator().manual_seed(5)
    y, x = torch.meshgrid(torch.arange(HEIGHT), torch.arange(WIDTH), indexing="ij")
    planes = [20 + 30 * c + 6 * y + 3 * x + torch.randint(0, 40, (HEIGHT, WIDTH), generator=generator)
              for c in range(channels)]
    return torch.stack(planes).clamp(0, 255).to(torch.uint8)


def hexadecimal(pixels):
    return bytes(pixels.permute(1, 2, 0).reshape(-1).tolist()).hex()


def rows():
    yield "// Made by tests/reference/make_augmentation_goldens.py."
    for channels in (3, 1):
        start = image(channels)
        yield f'GOLDEN_IMAGE({channels}, {HEIGHT}, {WIDTH}, {quoted(start)})'
        for policy, transform in (("rand_augment", RandAugment()), ("trivial_augment", TrivialAugmentWide())):
            space = transform._AUGMENTATION_SPACE
            for change, name in CHANGES.items():
                magnitudes, signed = space[name]
                values = magnitudes(31, HEIGHT, WIDTH)
                # Colours change by the same rule in both policies, and grey images move as others do.
                geometric = name in ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
                if (channels == 1 or policy == "trivial_augment") and geometric == (channels == 1):
                    continue
                for m in ((9,) if policy == "rand_augment" else (22,)) if values is not None else (0,):
                    for negative in (False, True) if signed else (False,):
                        value = 0.0 if values is None else float(values[m]) * (-1 if negative else 1)
                        result = transform._apply_image_or_video_transform(
                            start, name, value, interpolation=transform.interpolation, fill=transform._fill)
                        yield (f"GOLDEN_CHANGE({channels}, {policy}, {change}, {m}, {str(negative).lower()}, "
                               f"{quoted(result)})")
        for turns in (-0.5, -0.1, 0.03, 0.35):
            yield f"GOLDEN_HUE({channels}, {turns}f, {quoted(functional.adjust_hue(start, turns))})"


def quoted(pixels):
    text = hexadecimal(pixels)
    lines = [text[i:i + 150] for i in range(0, len(text), 150)]
    return "\n  " + "\n  ".join(f'"{line}"' for line in lines)


def main():
    assert math.isclose(float(RandAugment()._AUGMENTATION_SPACE["Rotate"][0](31, 1, 1)[9]), 9, rel_tol=1e-6)
    FILE.write_text("\n".join(rows()) + "\n")
    print(f"{FILE.name}: torch {torch.__version__}, torchvision {torchvision.__version__}")


if __name__ == "__main__":
    main()
