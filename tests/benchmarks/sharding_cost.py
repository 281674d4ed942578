#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What --shard costs in time and bytes, and what it saves in memory, against the same training without.

sharding_cost.py times  [--build DIR] [--pairs N] [--ranks 2,4] [--levels optimizer,gradients] [cases...]
sharding_cost.py memory [--build DIR] [--ranks 1,2,4] [--optimizers adamw,muon]

times: convnet at micro-batch 32, nanogpt at 3, gpt2-124m at 1. Runs without and with take turns, and which is first as well.
A pair's ratio is that of the medians of its windows of steps; the first window counts in none. Printed are the median
of the ratios (least to most), the milliseconds of both, and the bytes that rank 0 sends in a step, by plan. Weights of
a pair have to be equal.

memory: three steps of 16 layers of gpt2-355m with 2,048 tokens (204 million parameters; 24 layers with their checkpoint
are more than the 24 GiB that 2 and 4 ranks share here) and a context of 16. Printed are what each category takes by the run's own plan, the whole plan with the process as it was
before, and the peak resident memory of rank 0, in MB. Where sharded, rank 0's share of the optimizer's state has to be 1/N within 2%.
Four unsharded replicas are more than 24 GiB as well, and are not run.

Exit code 1 where a run fails, weights differ between runs of an optimizer, or a share is off.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from comparison_cases import NANOGPT_FLAGS
from comparison_output import write_tokens
from training_times import read_rows, window_ms

PROJECT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("LOCKSTEP_TEST_DATA", PROJECT.parent / "shared/data"))
SMALL_VOCABULARY = 2048
TOKENS = "--data=tokens:tokens.bin"  # random ones, in the folder of the runs
TEXT = f"text:{DATA / 'tinyshakespeare.txt'}"
QUIET = ["--eval-every=0", "--checkpoint-every=0", "--noise-scale-every=0", "--tensorboard=off",
         "--seed=1"]
CASES = {  # flags, steps of a run, steps of a window
    "convnet": (["--model=convnet", f"--data=mnist:{DATA / 'mnist'}", "--global-batch=256", "--micro-batch=32",
                 "--optimizer=adamw", "--lr=0.001"], 300, 25),
    "nanogpt": ([*NANOGPT_FLAGS, "--micro-batch=3", f"--data={TEXT}"], 300, 25),
    "gpt2-124m": (["--model=gpt2-124m", "--context=128", "--optimizer=adamw", "--lr=1e-4", "--global-batch=4", "--micro-batch=1",
                   TOKENS, "--vocabulary=50257"], 6, 1),
}
LARGEST_IMBALANCE = 0.02
LARGE = ["--timeout=120", "--model=gpt", "--layers=16", "--heads=16", "--width=1024", "--context=16", "--global-batch=4",
         "--micro-batch=1", "--lr=1e-4", "--steps=3", TOKENS, f"--vocabulary={SMALL_VOCABULARY}"]


def train(options, flags, ranks, level):
    """(rows of metrics.jsonl, summary.json)"""
    with tempfile.TemporaryDirectory(prefix="lockstep-sharding-") as folder:
        out = pathlib.Path(folder) / "run"
        write_tokens(pathlib.Path(folder) / "tokens.bin", SMALL_VOCABULARY, 100_000)
        command = [str(options.build / "lockstep"), "train", *flags, *QUIET, f"--ranks={ranks}", f"--shard={level}",
                   f"--out={out}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env={
            **os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        if result.returncode != 0:
            sys.exit(f"{' '.join(command)}\nfailed:\n{result.stdout[-1000:]}{result.stderr[-2000:]}")
        return read_rows(out), json.loads((out / "summary.json").read_text())


def sent_bytes(options, flags, ranks, level):
    with tempfile.TemporaryDirectory(prefix="lockstep-sharding-") as folder:
        write_tokens(pathlib.Path(folder) / "tokens.bin", SMALL_VOCABULARY, 100_000)
        result = subprocess.run([str(options.build / "lockstep"), "plan", "--json", *flags, *QUIET, f"--ranks={ranks}",
                                 f"--shard={level}"], capture_output=True, text=True, check=True, cwd=folder)
    return json.loads(result.stdout)["exchange_bytes_per_step"]


def times(options):
    print("| case | ranks | --shard | ms without | ms with | with / without | MB sent without | with | equal weights |\n"
          "|---|--:|---|--:|--:|--:|--:|--:|---|", flush=True)
    for name in options.cases or CASES:
        flags, steps, window = CASES[name]
        for ranks in options.ranks:
            for level in options.levels:
                measure(options, name, [*flags, f"--steps={steps}", f"--log-every={window}"], ranks, level, window)


def measure(options, name, flags, ranks, level, window):
    without, sharded, weights = [], [], set()
    for pair in range(options.pairs):
        order = ("none", level) if pair % 2 == 0 else (level, "none")
        for which in order:
            rows, summary = train(options, flags, ranks, which)
            (without if which == "none" else sharded).append(statistics.median(window_ms(rows, window)))
            weights.add(summary["weights_sha256"])
    ratios = [b / a for a, b in zip(without, sharded)]
    before, after = (sent_bytes(options, flags, ranks, which) / 1e6 for which in ("none", level))
    print(f"| {name} | {ranks} | {level} | {statistics.median(without):.2f} | {statistics.median(sharded):.2f} | "
          f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) | {before:.1f} | {after:.1f} | "
          f"{'yes' if len(weights) == 1 else 'NO'} |", flush=True)
    if len(weights) != 1:
        sys.exit("sharding changed the weights")


def memory(options):
    print("| optimizer | ranks | --shard | parameters | gradients | sums | state | state / one rank's | planned | with the process before "
          "| peak of rank 0 |\n|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    for optimizer in options.optimizers:
        whole, weights = None, set()
        for ranks in sorted({1, *options.ranks}):
            for level in ("none", "optimizer", "gradients") if ranks > 1 else ("none",):
                if level == "none" and ranks > 2:
                    continue
                _, summary = train(options, [*LARGE, f"--optimizer={optimizer}", "--log-every=1"], ranks, level)
                parts = summary["memory"]
                whole = whole or parts["optimizer_state"]
                megabytes = [f"{parts[part] / 1e6:,.1f}" for part in ("parameters", "gradients", "pending_sums", "optimizer_state")]
                planned = summary["memory_planned_bytes"]
                weights.add(summary["weights_sha256"])
                share = parts["optimizer_state"] / whole * (1 if level == "none" else ranks)
                if len(weights) > 1 or abs(share - 1) > LARGEST_IMBALANCE:
                    sys.exit(f"{len(weights)} different weights, {share:.3f} of an equal share on rank 0")
                print(f"| {optimizer} | {ranks} | {level} | {' | '.join(megabytes)} | {parts['optimizer_state'] / whole:.4f} | "
                      f"{planned / 1e6:,.1f} | {(planned + summary['memory_baseline_bytes']) / 1e6:,.1f} | "
                      f"{summary['peak_memory_bytes'] / 1e6:,.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("part", choices=["times", "memory"])
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    parser.add_argument("--build", type=pathlib.Path, default=PROJECT / "build" / "release")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--ranks", type=lambda text: [int(part) for part in text.split(",")], default=None)
    parser.add_argument("--levels", type=lambda text: text.split(","), default=["optimizer"])
    parser.add_argument("--optimizers", type=lambda text: text.split(","), default=["adamw", "muon"])
    options = parser.parse_intermixed_args()
    options.build = options.build.resolve()
    for name in options.cases:
        if name not in CASES:
            parser.error(f"no case {name}; there are {', '.join(CASES)}")
    if not options.ranks:
        options.ranks = [2, 4] if options.part == "times" else [1, 2, 4]
    print(f"load average at the start {os.getloadavg()[0]:.1f}, {len(os.sched_getaffinity(0))} cores\n", flush=True)
    (times if options.part == "times" else memory)(options)


if __name__ == "__main__":
    main()
