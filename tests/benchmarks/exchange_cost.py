#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `--reduction reproducible` costs, as a share of a step: in turn with `--reduction fast`.

exchange_cost.py [--device auto|cpu|cuda] [--ranks 1,2,4] [--models NAME,...] [--pairs N]
                 [--steps N] [--build DIR]

Both sides have eight shards, the leaves of the summation tree. On one rank, where there is nobody
to exchange with, there is a second comparison, with one shard: the same micro-batches, added up in
one place instead of a tree. Each run is the median of its windows after the first, which is not
counted; a pair is two runs one after the other, every second pair the other way round, and its cost
is the first's time over the second's, less one. Prints the median over the pairs (least to most).
The gradient noise scale, which only shards have, is switched off. Asked for: at most 5% on several
ranks, 0.5% on one. Runs of one kind lie apart too: the last column says by how much, (most - least)
/ median of the others.
Ranks that share a GPU or a core measure that machine, not a system with a device for each.
Exit code 1 where a run fails.
"""
import argparse
import itertools
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from comparison_output import PROJECT, print_table
from rank_processes import say
from training_times import read_rows, window_ms

WINDOWS = 6
SHARDS = 8
ASKED = {1: 0.005}
ASKED_OF_MORE = 0.05
# Eight micro-batches a step: (global batch, flags, steps of a window on a CPU, on a GPU).
MODELS = {
    "mlp": (256, ["--model", "mlp", "--hidden", "256,256", "--data", "synthetic:28x28x1:10"],
            200, 500),
    "convnet": (256, ["--model", "convnet", "--data", "synthetic:28x28x1:10"], 10, 200),
    "resnet18": (512, ["--model", "resnet18", "--stem", "cifar", "--data", "synthetic:32x32x3:10",
                       "--momentum", "0.9"], 1, 30),
    "resnet50": (512, ["--model", "resnet50", "--data", "synthetic:224x224x3:1000",
                       "--momentum", "0.9"], 1, 5),
}
DEFAULT = {"cpu": "mlp,convnet", "cuda": "mlp,convnet,resnet18,resnet50"}


def device_of(options):
    if options.device != "auto":
        return options.device
    try:
        found = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    except OSError:
        return "cpu"
    return "cuda" if found.returncode == 0 and "GPU" in found.stdout else "cpu"


def comparisons(ranks):
    """[(name, flags of what it is compared with)]"""
    fast = [("fast", ["--reduction", "fast", "--shards", str(SHARDS)])]
    return fast if ranks > 1 else [*fast, ("one shard", ["--shards", "1"])]


REPRODUCIBLE = ["--reduction", "reproducible", "--shards", str(SHARDS)]


def run(options, device, name, ranks, flags):
    """Milliseconds a step; None where it failed."""
    batch, model, cpu_window, gpu_window = MODELS[name]
    window = options.steps or (gpu_window if device == "cuda" else cpu_window)
    with tempfile.TemporaryDirectory(prefix="lockstep-exchange-") as folder:
        out = pathlib.Path(folder) / "run"
        command = [str(options.build / "lockstep"), "train", "--device", device, "--ranks",
                   str(ranks), *model, *(["--precision", "bf16"] if device == "cuda" else []),
                   "--global-batch", str(batch), "--micro-batch", str(batch // SHARDS),
                   "--steps", str(window * (WINDOWS + 1)), "--log-every", str(window),
                   "--eval-every", "0", "--checkpoint-every", "0", "--noise-scale-every", "0",
                   "--out", str(out), *flags]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            say(f"{' '.join(command)}\nfailed with exit code {result.returncode}:\n"
                f"{result.stderr[-2000:]}")
            return None
        times = window_ms(read_rows(out), window)
        return statistics.median(times) if times else None


def pairs_of(measure, kinds, pairs):
    """[(reproducible, other), ...] in milliseconds, in turn and every second time the other way
    round; None where a run failed. `kinds` are the flags of both."""
    times = []
    for pair in range(pairs):
        order = [0, 1] if pair % 2 == 0 else [1, 0]
        found = {}
        for which in order:
            if (found_ms := measure(kinds[which])) is None:
                return None
            found[which] = found_ms
        times.append((found[0], found[1]))
    return times


def row(name, ranks, against, times):
    limit = ASKED.get(ranks, ASKED_OF_MORE)
    if times is None:
        return [name, str(ranks), against, *["not measured"] * 3, f"{limit:.1%}", "", ""]
    costs = [reproducible / other - 1 for reproducible, other in times]
    others = [pair[1] for pair in times]
    cost, other = statistics.median(costs), statistics.median(others)
    return [name, str(ranks), against, f"{statistics.median(pair[0] for pair in times):.4g}",
            f"{other:.4g}", f"{cost:+.2%} ({min(costs):+.2%} to {max(costs):+.2%})",
            f"{limit:.1%}", "yes" if cost <= limit else "NO",
            f"{(max(others) - min(others)) / other:.1%}"]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--models", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="of a window; 0: the model's own")
    parser.add_argument("--build", type=pathlib.Path, default=PROJECT / "build" / "release")
    options = parser.parse_args()
    options.ranks = [int(ranks) for ranks in options.ranks.split(",")]
    if any(ranks < 1 or SHARDS % ranks for ranks in options.ranks) or options.pairs < 1:
        parser.error(f"--ranks must divide {SHARDS}, --pairs must be at least 1")
    device = device_of(options)
    names = (options.models or DEFAULT[device]).split(",")
    if unknown := [name for name in names if name not in MODELS]:
        parser.error(f"unknown model {unknown[0]}; models: {', '.join(MODELS)}")
    return options, device, names


def main():
    options, device, names = parse()
    load, rows, failed = os.getloadavg()[0], [], False
    for name, ranks in itertools.product(names, options.ranks):
        for against, flags in comparisons(ranks):
            times = pairs_of(lambda flags, name=name, ranks=ranks:
                             run(options, device, name, ranks, flags), [REPRODUCIBLE, flags],
                             options.pairs)
            failed |= times is None
            rows.append(row(name, ranks, against, times))
            say(" | ".join(rows[-1]))
    print(f"{device}, {options.pairs} pairs, {SHARDS} micro-batches a step, load average at the "
          f"start {load:.1f}\n")
    print_table(["model", "ranks", "against", "reproducible, ms", "the other, ms", "cost",
                 "at most", "met", "runs lie apart"], rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
