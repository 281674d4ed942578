#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gradient noise scale that a run reports, against one from per-sample gradients.

noise_scale.py --python PYTHON_WITH_TORCH [--build DIR] [--mnist DIR]

An mlp is trained on MNIST for some steps. With its weights as they are then (a rate too small to
change an fp32 weight), Lockstep measures the noise scale for some steps, and PyTorch computes the
gradient of each of the 60,000 training samples: tr(S) = mean |g_i|^2 - |mean g|^2, over |mean g|^2.
Prints both and their ratio; exits 1 where they differ by more than 10%.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

PROJECT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("LOCKSTEP_TEST_DATA", PROJECT.parent / "shared/data"))
MOST_DIFFERENCE = 0.10
TRAINED_STEPS = 100
FLAGS = ("--model=mlp", "--hidden=32", "--ranks=1", "--eval-every=0", "--log-every=10")

REFERENCE = """
import gzip, json, struct, sys
import torch
folder, weights = sys.argv[1:3]
def idx(name):
    data = gzip.open(f"{folder}/{name}.gz").read()
    dims = data[3]
    shape = struct.unpack(f">{dims}I", data[4:4 + 4 * dims])
    return torch.frombuffer(bytearray(data[4 + 4 * dims:]), dtype=torch.uint8).reshape(shape)
x = (idx("train-images-idx3-ubyte").float() / 255 - 0.1307) / 0.3081
x, labels = x.reshape(len(x), -1), idx("train-labels-idx1-ubyte").long()
with open(weights, "rb") as file:
    size = struct.unpack("<Q", file.read(8))[0]
    header = json.loads(file.read(size))
    body = file.read()
p = {}
for name, entry in header.items():
    if name == "__metadata__":
        continue
    first, last = entry["data_offsets"]
    p[name] = torch.frombuffer(bytearray(body[first:last]), dtype=torch.float32).reshape(
        entry["shape"])
def loss(p, x, label):
    h = torch.relu(x @ p["0.weight"].T + p["0.bias"])
    return torch.nn.functional.cross_entropy(h @ p["2.weight"].T + p["2.bias"], label)
per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
total = {name: torch.zeros_like(v, dtype=torch.float64) for name, v in p.items()}
squares = 0.0
for at in range(0, len(x), 1000):
    for name, g in per_sample(p, x[at:at + 1000], labels[at:at + 1000]).items():
        squares += float((g.double() ** 2).sum())
        total[name] += g.double().sum(0)
whole = sum(float(((t / len(x)) ** 2).sum()) for t in total.values())
print(json.dumps({"gradient": whole, "variance": squares / len(x) - whole}))
"""


def train(program, out, *flags):
    subprocess.run([program, "train", *FLAGS, f"--out={out}", *flags], check=True,
                   stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--build", default=PROJECT / "build/release", type=pathlib.Path)
    parser.add_argument("--mnist", default=DATA / "mnist")
    parser.add_argument("--global-batch", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=400)
    arguments = parser.parse_args()
    program, mnist = arguments.build / "lockstep", f"--data=mnist:{arguments.mnist}"
    with tempfile.TemporaryDirectory() as folder:
        train(program, f"{folder}/first", mnist, f"--steps={TRAINED_STEPS}", "--lr=0.1")
        weights = f"{folder}/first/model.safetensors"
        train(program, f"{folder}/measured", mnist, f"--init={weights}", "--lr=1e-20",
              f"--global-batch={arguments.global_batch}", "--micro-batch=64",
              f"--steps={arguments.steps}", "--noise-scale-every=1")
        summary = json.loads(pathlib.Path(f"{folder}/measured/summary.json").read_text())
        reference = subprocess.run([arguments.python, "-c", REFERENCE, arguments.mnist, weights],
                                   check=True, capture_output=True, text=True)
    sample = json.loads(reference.stdout)
    expected = sample["variance"] / sample["gradient"]
    if summary["noise_scale"] is None:
        sys.exit(summary["noise_scale_words"])
    ratio = summary["noise_scale"] / expected
    print(f"lockstep {summary['noise_scale']:.1f} samples, per-sample gradients {expected:.1f}: "
          f"ratio {ratio:.3f}")
    sys.exit(0 if abs(ratio - 1) <= MOST_DIFFERENCE else 1)


if __name__ == "__main__":
    main()
