#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What watching a run costs it: the noise scale, and TensorBoard's file.

observation_cost.py [--build DIR] [--repetitions N] [--ranks N]

Trains each model with everything on, without the noise scale, and without TensorBoard's file, in
turn; prints the median samples a second of each and the medians of the ratios of neighbours. The
ledger itself, clock readings in every step, cannot be left out.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

PROJECT = pathlib.Path(__file__).resolve().parents[2]
MODELS = {
    "mlp": ("--model=mlp", "--hidden=128", "--data=synthetic:28x28x1:10", "--micro-batch=32",
            "--steps=6000"),
    "convnet": ("--model=convnet", "--data=synthetic:28x28x1:10", "--micro-batch=32",
                "--steps=60"),
    "resnet20": ("--model=resnet20", "--data=synthetic:32x32x3:10", "--micro-batch=16",
                 "--global-batch=64", "--steps=30"),
}
VARIANTS = {"all on": (), "no noise scale": ("--noise-scale-every=0",),
            "no tensorboard": ("--tensorboard=off",)}


def rate(program, ranks, flags):
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "train", f"--ranks={ranks}", "--eval-every=0", "--workers=0",
                        f"--out={folder}/run", *flags], check=True, env=environment,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return json.loads(pathlib.Path(f"{folder}/run/summary.json").read_text())["samples_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", default=PROJECT / "build/release", type=pathlib.Path)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--ranks", type=int, default=1)
    arguments = parser.parse_args()
    print("| model | variant | samples/s | cost of what it leaves out |\n|---|---|--:|--:|")
    for model, flags in MODELS.items():
        rates = {variant: [] for variant in VARIANTS}
        for _ in range(arguments.repetitions):
            for variant, more in VARIANTS.items():
                rates[variant].append(rate(arguments.build / "lockstep", arguments.ranks,
                                           (*flags, *more)))
        for variant, values in rates.items():
            cost = statistics.median(1 - on / off for on, off in zip(rates["all on"], values))
            print(f"| {model} | {variant} | {statistics.median(values):,.0f} | {cost:+.2%} |",
                  flush=True)


if __name__ == "__main__":
    main()
