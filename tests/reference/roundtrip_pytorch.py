#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weights from torchvision to Lockstep and back. Needs PyTorch, torchvision, safetensors.

usage: roundtrip_pytorch.py ROUND_TRIP [--models resnet50,...]
ROUND_TRIP is the program tests/agreement/round_trip of a build.

For each model: torchvision's fresh weights (with statistics of one batch) are written as PyTorch
users write them and read by Lockstep; the logits of two images of 224x224 must agree, and what
Lockstep writes must be the same bits. Then weights of Lockstep's are loaded by torchvision, strictly,
and the logits compared again. Prints the largest difference, relative to the largest logit; it may
be 4 times that of PyTorch's own float32 from its float64. Exit code 1 where anything differs.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torchvision
from safetensors.torch import load_file, save_file

from formula import values

TORCHVISION = {"vgg11": "vgg11_bn", "vgg16": "vgg16_bn", "vit-b16": "vit_b_16",
               "mobilenet-v2": "mobilenet_v2", "convnext-tiny": "convnext_tiny"}


def lockstep(program, model, source, target):
    result = subprocess.run([program, model, "imagenet", "224", source, target], check=True,
                            stdout=subprocess.PIPE, text=True, timeout=600)
    return np.array(result.stdout.split(), dtype=np.float64).reshape(2, 1000)


def logits_of(model, dtype):
    model = model.to(dtype).eval()
    with torch.no_grad():
        return model(values("x.0", (2, 3, 224, 224), 1.0).to(dtype)).double().numpy()


def compare(what, ours, model):
    rounded, exact = logits_of(model, torch.float32), logits_of(model, torch.float64)
    scale = np.abs(exact).max()
    ours_off, peer_off = (np.abs(l - exact).max() / scale for l in (ours, rounded))
    agrees = bool(np.isfinite(ours_off) and ours_off <= 4 * peer_off)
    print(f"{what}: off by {ours_off:.1e} (PyTorch's float32: {peer_off:.1e})"
          f"{'' if agrees else '  DIFFERS'}", flush=True)
    return agrees


def check(program, name, folder):
    torch.manual_seed(0)
    model = torchvision.models.get_model(TORCHVISION.get(name, name))
    model.train()
    with torch.no_grad():
        for p in model.parameters():  # a head of zeros, as vit_b_16's, would hide what is before it
            if not p.any():
                p.normal_(std=0.02)
        model(values("x.1", (2, 3, 224, 224), 1.0))
    theirs, back = folder / "pytorch.safetensors", folder / "lockstep.safetensors"
    save_file(model.state_dict(), theirs)
    agrees = compare(f"{name}, PyTorch to Lockstep", lockstep(program, name, theirs, back), model)

    before, after = load_file(theirs), load_file(back)
    same = all(torch.equal(after[key], value) for key, value in before.items()
               if not key.endswith("num_batches_tracked"))
    print(f"{name}, written back: {len(after)} tensors, {'the same' if same else 'OTHER'} bits")

    ours = lockstep(program, name, "-", back)
    fresh = torchvision.models.get_model(TORCHVISION.get(name, name))
    fresh.load_state_dict(load_file(back), strict=True)
    return compare(f"{name}, Lockstep to PyTorch", ours, fresh) and agrees and same


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program")
    parser.add_argument("--models", default="resnet18,resnet50,vgg11,mobilenet-v2,convnext-tiny,vit-b16")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        results = [check(arguments.program, name, pathlib.Path(folder))
                   for name in arguments.models.split(",")]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
