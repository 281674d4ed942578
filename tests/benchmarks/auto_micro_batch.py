#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`--micro-batch auto` under ten memory limits, against the best fixed setting that fits each.

auto_micro_batch.py [--build DIR] [--text FILE] [--repetitions N] [--ranks N] [--models A,B]

For each of three models, every fixed micro-batch that shares the global batch evenly is trained for
some steps, with `--recompute none` and `all`, as often as --repetitions says: the best within each limit
is the one with the highest median. The best of many medians is flattered by noise, so it runs again
under each limit, in turn with auto, as often, and only those runs are compared. Fixed settings are those
two alone: what `--recompute auto` takes at a size differs from limit to limit, and is not among them.

Prints a table: the setting that auto took; the median of its samples a second, and of the best fixed
setting's next to it; and whether limit and global batch were kept. Below it, how far runs of one setting
lie apart. Exit code 1 where limit or batch was not kept, or where auto is more than 5% slower.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

PROJECT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("LOCKSTEP_TEST_DATA", PROJECT.parent / "shared/data"))
LIMITS = 10
SLOWEST = 0.95
MODELS = {
    "convnet": (256, 120, ("--model=convnet", "--data=glyphs")),
    "resnet20": (64, 25, ("--model=resnet20", "--data=synthetic:32x32x3:10", "--momentum=0.9")),
    "gpt": (48, 40, ("--model=gpt", "--layers=4", "--heads=4", "--width=128", "--context=64",
                     "--optimizer=adamw", "--lr=1e-3")),
}


class Run:
    """One training, as its summary tells it."""

    def __init__(self, options, flags):
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([options.build / "lockstep", "train", f"--ranks={options.ranks}",
                            *flags, "--log-every=0", "--eval-every=0", "--checkpoint-every=0",
                            f"--out={folder}/run"], check=True, env=environment,
                           stdout=subprocess.DEVNULL)
            summary = json.loads(pathlib.Path(folder, "run/summary.json").read_text())
            config = pathlib.Path(folder, "run/config.toml").read_text()
        self.rate = summary["samples_per_s"]
        self.samples = summary["samples"]
        self.bytes = summary["planned_bytes"]
        self.micro_batch = int(re.search(r"^micro-batch = (\d+)$", config, re.MULTILINE)[1])
        self.recompute = re.search(r"^recompute = '(\w+)'$", config, re.MULTILINE)[1]


def sizes(global_batch, ranks):
    share = global_batch // ranks
    return [size for size in range(1, share + 1) if share % size == 0]


def fixed_flags(setting):
    return [f"--micro-batch={setting[0]}", f"--recompute={setting[1]}"]


def fixed_runs(options, flags, global_batch):
    """Runs by setting."""
    made = {(size, recompute): [] for size in sizes(global_batch, options.ranks)
            for recompute in ("none", "all")}
    for _ in range(options.repetitions):
        for setting, runs in made.items():
            runs.append(Run(options, [*flags, *fixed_flags(setting)]))
    return made


def limits_for(fixed):
    planned = [runs[0].bytes for runs in fixed.values()]
    least, most = min(planned), max(planned)
    return [least + (most - least) * i // (LIMITS - 1) for i in range(LIMITS)]


def median_rate(runs):
    return statistics.median(run.rate for run in runs)


def spread(runs):
    return max(run.rate for run in runs) / min(run.rate for run in runs) - 1


def measure(options, name):
    global_batch, steps, flags = MODELS[name]
    flags = [*flags, f"--global-batch={global_batch}", f"--steps={steps}"]
    if name == "gpt":
        flags.append(f"--data=text:{options.text}")
    fixed = fixed_runs(options, flags, global_batch)
    good, within = True, 0
    for limit in limits_for(fixed):
        setting = max((setting for setting, runs in fixed.items() if runs[0].bytes <= limit),
                      key=lambda setting: median_rate(fixed[setting]))
        again, made = [], []
        for _ in range(options.repetitions):
            again.append(Run(options, [*flags, *fixed_flags(setting)]))
            made.append(Run(options, [*flags, "--micro-batch=auto", f"--memory-limit={limit}"]))
        best, rate = median_rate(again), median_rate(made)
        kept = all(run.bytes <= limit and run.samples == global_batch * steps for run in made)
        good &= kept
        within += rate >= SLOWEST * best
        taken = {f"{run.micro_batch} {run.recompute}" for run in made}
        print(f"| {name} | {limit / 2**20:.2f} MiB | {', '.join(sorted(taken))} | {rate:.0f} | "
              f"{setting[0]} {setting[1]} | {best:.0f} | {rate / best:.3f} | "
              f"{'yes' if kept else 'NO'} |", flush=True)
    widest = statistics.median(spread(runs) for runs in fixed.values())
    print(f"{name}: within {1 - SLOWEST:.0%} under {within} of {LIMITS} limits; runs of one fixed setting lie "
          f"{widest:.1%} apart (median)", flush=True)
    return good and within == LIMITS


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=PROJECT / "build" / "release")
    parser.add_argument("--text", type=pathlib.Path, default=DATA / "tinyshakespeare.txt")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--models", default=",".join(MODELS))
    options = parser.parse_args()
    print("| model | limit | auto takes | samples/s | best fixed | samples/s | auto / best | "
          "limit and batch kept |\n|---|---|---|---|---|---|---|---|")
    results = [measure(options, name) for name in options.models.split(",")]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
