#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What snapshots in memory cost a quiet run: `lockstep run` with --snapshot-every auto and 0, in turn.

snapshot_cost.py [--program FILE] [--pairs N] [cases...]

A run's time is that between two of its step lines on the console, after the first quarter of its steps: evaluations and
checkpoints are off, so that nothing else lies between. The order within a pair changes from pair to pair. Prints the
medians of milliseconds a step, and of the pairs' ratios (least to most), and how many snapshots a run took.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

PROJECT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "LOCKSTEP_"))},
               "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
TEXT = f"text:{PROJECT / 'docs/commands/train.md'}"
CASES = {  # flags, steps, steps between lines
    "convnet": (("--model=convnet", "--data=synthetic:28x28x1:10", "--micro-batch=32", "--global-batch=64"), 1200, 20),
    "nanogpt": (("--model=gpt", "--layers=4", "--heads=4", "--width=128", "--context=64", "--tied-head=on", "--dropout=0",
                 "--optimizer=adamw", f"--data={TEXT}", "--micro-batch=6", "--global-batch=12"), 1600, 40),
    "gpt2-124m": (("--model=gpt2-124m", f"--data={TEXT}", "--micro-batch=1", "--global-batch=2"), 24, 2),
}


def measure(program, flags, steps, every, snapshots):
    """(milliseconds a step, snapshots)"""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run"
        command = [program, "run", "--ranks=2", f"--out={out}", f"--steps={steps}", f"--log-every={every}", "--eval-every=0",
                   "--checkpoint-every=1000h", f"--snapshot-every={snapshots}", "--noise-scale-every=0", "--tensorboard=off", *flags]
        moments = []
        with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if (step := re.match(r"step (\d+)/", line)) and int(step[1]) >= steps / 4:
                    moments.append((int(step[1]), time.monotonic()))
        if process.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, command))}: exit code {process.returncode}")
        (first, begin), (last, end) = moments[0], moments[-1]
        taken = json.loads((out / "summary.json").read_text()).get("snapshots", 0)
        return 1e3 * (end - begin) / (last - first), taken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=PROJECT / "build/release/lockstep")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    arguments = parser.parse_args()
    print("| case | without, ms | with, ms | with / without | pairs | snapshots a run |\n|---|--:|--:|--:|--:|--:|")
    for case in arguments.cases:
        runs = {"auto": [], "0": []}
        for pair in range(arguments.pairs):
            for snapshots in ("auto", "0") if pair % 2 == 0 else ("0", "auto"):
                runs[snapshots].append(measure(arguments.program, *CASES[case], snapshots))
        ms = {name: [run[0] for run in of] for name, of in runs.items()}
        ratios = [a / b for a, b in zip(ms["auto"], ms["0"])]
        print(f"| {case} | {statistics.median(ms['0']):.4g} | {statistics.median(ms['auto']):.4g} "
              f"| {statistics.median(ratios):.4f} ({min(ratios):.4f} to {max(ratios):.4f}) | {arguments.pairs} "
              f"| {statistics.median(run[1] for run in runs['auto']):.0f} |", flush=True)


if __name__ == "__main__":
    main()
