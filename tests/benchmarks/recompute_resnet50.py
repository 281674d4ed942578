#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many times the micro-batch `--recompute auto` allows for resnet50 at the same memory, and the
time that it costs.

recompute_resnet50.py [--build DIR] [--micro-batch M] [--steps N] [--repetitions N]

The limit is what a micro-batch of M takes without recomputation; the micro-batch with it is the
largest that `lockstep plan` says fits. Both are trained on one rank, in turn, on as many samples; and
the larger one once more without limit and recomputation, for the bits. Exit code 1 where they differ.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

PROJECT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = ["--model=resnet50", "--data=synthetic:224x224x3:1000", "--momentum=0.9", "--ranks=1",
         "--workers=1"]
# As one shard, pending sums, which depend on the number of micro-batches, stay out of it.
ONE_SHARD = "--shards=1"


def plan(options, *flags):
    result = subprocess.run([options.build / "lockstep", "plan", "--json", *FLAGS, ONE_SHARD, *flags],
                            capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


def train(options, global_batch, steps, *flags):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([options.build / "lockstep", "train", *FLAGS, ONE_SHARD,
                        f"--global-batch={global_batch}", f"--steps={steps}", "--log-every=0",
                        "--eval-every=0", "--checkpoint-every=0", f"--out={folder}/run", *flags],
                       check=True, stdout=subprocess.DEVNULL)
        return json.loads(pathlib.Path(folder, "run/summary.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=PROJECT / "build" / "release")
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=2)
    options = parser.parse_args()
    small = options.micro_batch
    limit = plan(options, f"--global-batch={64 * small}", f"--micro-batch={small}")["limited_bytes"]
    large = plan(options, f"--global-batch={64 * small}",
                 f"--memory-limit={limit}")["largest_micro_batch_recompute"]
    recomputing = ("--recompute=auto", f"--memory-limit={limit}")
    print(f"within {limit / 2**20:.1f} MiB: micro-batch {small} without recomputation, {large} with "
          f"auto: {large / small:.2f}x")
    times = {small: [], large: []}
    for _ in range(options.repetitions):
        for micro, flags in ((small, ()), (large, recomputing)):
            run = train(options, large, options.steps, f"--micro-batch={micro}", *flags)
            times[micro].append(run["wall_s"] / run["samples"])
            last = run
    plain, again = (statistics.median(times[micro]) for micro in (small, large))
    print(f"{1000 * plain:.1f} ms a sample without, {1000 * again:.1f} ms with: "
          f"{100 * (again / plain - 1):+.1f}%")
    same = train(options, large, options.steps, f"--micro-batch={large}")
    equal = same["weights_sha256"] == last["weights_sha256"]
    print(f"bits of micro-batch {large} with and without: {'equal' if equal else 'DIFFERENT'}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
