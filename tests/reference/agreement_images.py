#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A trained resnet18's loss on images it never saw, by Lockstep and by torchvision. Needs PyTorch,
torchvision, safetensors, Pillow.

usage: agreement_images.py LOCKSTEP PHOTOS [--sizes 96,160,224] [--steps 30]
LOCKSTEP is the built program, PHOTOS a folder with train/CLASS/ and val/CLASS/.

For each size: `lockstep train` trains resnet18 on PHOTOS, `lockstep evaluate` says the loss on val/,
and torchvision's resnet18 with the same weights computes it with Resize(size * 256 // 224),
CenterCrop(size), ToTensor, Normalize of ImageNet, in float64, over the same files. They may differ by 1e-3:
Lockstep resizes and crops in one pass of whole numbers, Pillow in two of which each rounds to
bytes. Prints both and the difference.
Exit code 1 where a loss differs by more.

500 JPEG files of CIFAR-10 (400 to train, 100 to evaluate) differed by 1.4e-4, 5.0e-5, 3.5e-4 at 96,
160, 224 pixels on 2026-11-24. Drawn images full of noise, 289 x 280, by up to 2.5e-3: at 160 pixels the
loss of Pillow's bytes is itself 1.7e-3 from that of an exact resampling, and Lockstep's 0.8e-3.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
import torchvision
from safetensors.torch import load_file
from torchvision import transforms

LIMIT = 1e-3
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def run(*command):
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                                 "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}, check=True)
    return result.stdout


def trained(program, photos, size, steps, out):
    run(program, "train", "--model", "resnet18", "--data", f"images:{photos}",
        "--image-size", size, "--global-batch", 32, "--steps", steps, "--lr", 0.01,
        "--augment", "resized-crop,flip", "--eval-every", 0, "--out", out)
    line = run(program, "evaluate", "--from", out).split()
    return float(line[line.index("loss") + 1])


def torchvision_loss(photos, size, run_folder):
    record = json.loads((run_folder / "preprocessing.json").read_text())
    transform = transforms.Compose([transforms.Resize(size * 256 // 224),
                                    transforms.CenterCrop(size), transforms.ToTensor(),
                                    transforms.Normalize(MEAN, DEVIATION)])
    data = torchvision.datasets.ImageFolder(photos / "val", transform)
    assert data.classes == record["class_names"], "classes are numbered otherwise"
    model = torchvision.models.resnet18(num_classes=len(data.classes))
    weights = load_file(run_folder / "model.safetensors")
    missing = model.load_state_dict(weights, strict=False)
    assert not missing.unexpected_keys, missing
    assert all(key.endswith("num_batches_tracked") for key in missing.missing_keys), missing
    model = model.double().eval()
    total = 0.0
    with torch.no_grad():
        for images, labels in torch.utils.data.DataLoader(data, batch_size=32):
            total += torch.nn.functional.cross_entropy(model(images.double()), labels,
                                                       reduction="sum").item()
    return total / len(data), len(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("photos", type=pathlib.Path)
    parser.add_argument("--sizes", default="96,160,224")
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()
    right = True
    with tempfile.TemporaryDirectory() as folder:
        for size in map(int, arguments.sizes.split(",")):
            out = pathlib.Path(folder) / str(size)
            ours = trained(arguments.program, arguments.photos, size, arguments.steps, out)
            theirs, count = torchvision_loss(arguments.photos, size, out)
            difference = abs(ours - theirs)
            agrees = math.isfinite(difference) and difference <= LIMIT
            right = right and agrees
            print(f"{size} pixels, {count} files: lockstep {ours:.6f}, torchvision {theirs:.6f}, "
                  f"differ by {difference:.1e}{'' if agrees else '  MORE THAN 1e-3'}", flush=True)
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
