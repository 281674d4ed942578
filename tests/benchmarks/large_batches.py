#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Large batches: accuracy of convnet on MNIST at equal epochs, SGD with a scaled rate against LARS and LAMB.

usage: large_batches.py [--build DIR] [--data mnist:DIR] [--epochs N] [--batches 256,2048,8192]
                        [--seeds 1,2,3] [--ranks N] [--keep DIR]

SGD's rate is tuned for the reference batch of 256 and scaled linearly (Goyal et al. 2017); those of LARS
and LAMB scale by the square root from theirs (You et al. 2020). The rates at the reference batch are the
best of a small grid each, by the first seed. All warm up over a tenth of the steps, then follow a cosine.
Accuracy is that on the test set after the last step. --keep: run folders stay there, for `lockstep report`.
Exit code 1 where a run fails.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

PROJECT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("LOCKSTEP_TEST_DATA", PROJECT.parent / "shared/data"))
REFERENCE = 256
TRAINING_SAMPLES = 60000
OPTIMIZERS = {
    "sgd": {"rates": [0.1, 0.2, 0.4], "scaling": "linear", "flags": ["--momentum=0.9"]},
    "lars": {"rates": [2, 4, 8, 16], "scaling": "sqrt", "flags": ["--weight-decay=1e-4"]},
    "lamb": {"rates": [0.004, 0.008, 0.016, 0.032], "scaling": "sqrt", "flags": []},
}


def train(options, optimizer, rate, batch, seed):
    """The accuracy on the test set."""
    settings = OPTIMIZERS[optimizer]
    steps = round(options.epochs * TRAINING_SAMPLES / batch)
    with tempfile.TemporaryDirectory(prefix="lockstep-large-batches-") as folder:
        name = f"{optimizer}-{batch}"
        keeps = options.keep and seed == options.seeds[-1] and not options.tuning
        out = (options.keep if keeps else pathlib.Path(folder)) / name
        command = [str(options.build / "lockstep"), "train", f"--data={options.data}",
                   "--model=convnet", f"--global-batch={batch}", "--micro-batch=32",
                   f"--epochs={options.epochs}", f"--optimizer={optimizer}", f"--lr={rate}",
                   f"--lr-reference-batch={REFERENCE}", f"--lr-scaling={settings['scaling']}",
                   "--lr-schedule=cosine", f"--warmup-steps={max(1, steps // 10)}",
                   *settings["flags"], f"--seed={seed}", f"--ranks={options.ranks}",
                   f"--log-every={max(1, steps // 50)}", "--eval-every=-1" if keeps else
                   f"--eval-every={steps}", "--checkpoint-every=0", f"--out={out}", "--force"]
        result = subprocess.run(command, capture_output=True, text=True, env={
            **os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        if result.returncode != 0:
            sys.exit(f"{' '.join(command)}\nfailed:\n{result.stderr[-2000:]}")
        return json.loads((out / "summary.json").read_text())["val_accuracy"]


def tune(options, optimizer):
    accuracies = {}
    for rate in OPTIMIZERS[optimizer]["rates"]:
        accuracies[rate] = train(options, optimizer, rate, REFERENCE, options.seeds[0])
        print(f"| {optimizer} | {rate:g} | {100 * accuracies[rate]:.2f}% |", flush=True)
    return max(accuracies, key=accuracies.get)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=PROJECT / "build" / "release")
    parser.add_argument("--data", default=f"mnist:{DATA / 'mnist'}")
    numbers = lambda text: [int(part) for part in text.split(",")]
    parser.add_argument("--batches", type=numbers, default=[256, 2048, 8192])
    parser.add_argument("--seeds", type=numbers, default=[1, 2, 3])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    print(f"{options.epochs} epochs\n\n| optimizer | lr at {REFERENCE} | accuracy |\n|---|---|---|")
    options.tuning = True
    rates = {optimizer: tune(options, optimizer) for optimizer in OPTIMIZERS}
    options.tuning = False
    print("\n| optimizer | lr at 256 | global batch | accuracies | mean |\n|---|---|---|---|---|")
    for optimizer in OPTIMIZERS:
        for batch in options.batches:
            reached = [train(options, optimizer, rates[optimizer], batch, seed)
                       for seed in options.seeds]
            print(f"| {optimizer} | {rates[optimizer]:g} | {batch} | "
                  f"{', '.join(f'{100 * value:.2f}%' for value in reached)} | "
                  f"{100 * statistics.mean(reached):.2f}% |", flush=True)


if __name__ == "__main__":
    main()
