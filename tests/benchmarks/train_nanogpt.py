#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nanoGPT's published CPU run by Lockstep: what it learns, how long that takes, the same bits.

usage: train_nanogpt.py [--build DIR] [--text FILE] [--seeds 1,2,3] [--precisions fp32,bf16]
                        [--steps N] [--ranks N] [--hash-steps N]

For each precision: the loss on the whole validation tenth after the last step for each seed, their
mean, and the seconds of training (without evaluation); then the weights_sha256 of a shorter run on
1, 2 and 4 ranks with micro-batches of 3. Exit code 1 where a run fails or hashes differ; the loss
and times are for the reader to judge: asked for are at most 1.91 in 22 s (bf16: 14 s) on two cores.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

from comparison_cases import NANOGPT_FLAGS, NANOGPT_STEPS

PROJECT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("LOCKSTEP_TEST_DATA", PROJECT.parent / "shared/data"))


def train(options, ranks, steps, evaluate, *flags):
    """The run's summary; None where it failed."""
    with tempfile.TemporaryDirectory(prefix="lockstep-nanogpt-") as folder:
        out = pathlib.Path(folder) / "run"
        command = [str(options.build / "lockstep"), "train", "--data", f"text:{options.text}",
                   *NANOGPT_FLAGS, "--steps", str(steps), "--log-every", "0", "--eval-every",
                   str(steps if evaluate else 0), "--ranks", str(ranks), "--out", str(out), *flags]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            print(f"{' '.join(command)}\nfailed:\n{result.stderr[-2000:]}", file=sys.stderr)
            return None
        return json.loads((out / "summary.json").read_text())


def accuracy(options, precision):
    print(f"\n{precision}, {options.steps} steps on {options.ranks} ranks, micro-batches of "
          f"{12 // options.ranks}\n\n"
          "| seed | loss on the validation tenth | seconds of training | weights_sha256 |\n"
          "|---|---|---|---|")
    losses, seconds = [], []
    for seed in options.seeds.split(","):
        run = train(options, options.ranks, options.steps, True, "--seed", seed, "--micro-batch",
                    str(12 // options.ranks), "--precision", precision)
        if run is None or run["val_loss"] is None:
            print(f"| {seed} | not measured | not measured | |")
            return False
        losses.append(run["val_loss"])
        seconds.append(run["wall_s"])
        print(f"| {seed} | {losses[-1]:.4f} | {seconds[-1]:.1f} | {run['weights_sha256'][:16]} |",
              flush=True)
    print(f"| mean | {statistics.mean(losses):.4f} | {statistics.mean(seconds):.1f} | |")
    return True


def same_bits(options, precision):
    hashes = set()
    for ranks in (1, 2, 4):
        run = train(options, ranks, options.hash_steps, False, "--seed", "1", "--micro-batch", "3",
                    "--precision", precision)
        hashes.add(run["weights_sha256"] if run else None)
        print(f"{precision}, {options.hash_steps} steps, {ranks} ranks, micro-batches of 3: "
              f"{run['weights_sha256'] if run else 'not measured'}", flush=True)
    same = len(hashes) == 1 and None not in hashes
    print("the same bits" if same else "OTHER BITS")
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=PROJECT / "build" / "release")
    parser.add_argument("--text", type=pathlib.Path, default=DATA / "tinyshakespeare.txt")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--precisions", default="fp32,bf16")
    parser.add_argument("--steps", type=int, default=NANOGPT_STEPS)
    parser.add_argument("--ranks", type=int, default=2, choices=[1, 2, 4])
    parser.add_argument("--hash-steps", type=int, default=200)
    options = parser.parse_args()
    if not options.text.is_file():
        parser.error(f"no {options.text} (--text FILE)")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the run, removes its files
    print(f"load average at the start {os.getloadavg()[0]:.1f}, "
          f"{len(os.sched_getaffinity(0))} cores")
    results = []
    for precision in options.precisions.split(","):
        results.append(accuracy(options, precision))
        print()
        results.append(same_bits(options, precision))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
