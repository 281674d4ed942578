#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`--micro-batch auto` under ten memory limits, against the best fixed setting that fits each.

auto_micro_batch.py [--build DIR] [--text FILE] [--repetitions N] [--ranks N]

For each of three models, every fixed micro-batch that shares the global batch evenly is trained for
some steps, with `--recompute none` and `all`, in turn; then auto under each limit. Fixed settings are
those two alone: what `--recompute auto` takes at a size differs from limit to limit, and is not among
them. Prints a table: the setting that auto took, its steps a second over those of the best fixed
setting within the limit, and whether limit and global batch were kept. Exit code 1 where one was not, or where auto is more than
5% slower.
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
    "convnet": (256, 60, ("--model=convnet", "--data=glyphs")),
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


def fixed_runs(options, flags, global_batch):
    """Rates and bytes by setting; the settings in turn, so that a slow minute hits all alike."""
    settings = [(size, recompute) for size in sizes(global_batch, options.ranks)
                for recompute in ("none", "all")]
    runs = {setting: [] for setting in settings}
    for _ in range(options.repetitions):
        for size, recompute in settings:
            runs[size, recompute].append(
                Run(options, [*flags, f"--micro-batch={size}", f"--recompute={recompute}"]))
    return {setting: (statistics.median(run.rate for run in made), made[0].bytes)
            for setting, made in runs.items()}


def measure(options, name):
    global_batch, steps, flags = MODELS[name]
    flags = [*flags, f"--global-batch={global_batch}", f"--steps={steps}"]
    if name == "gpt":
        flags.append(f"--data=text:{options.text}")
    fixed = fixed_runs(options, flags, global_batch)
    most = max(size for _, size in fixed.values())
    least = min(size for _, size in fixed.values())
    good = True
    for i in range(LIMITS):
        limit = least + (most - least) * i // (LIMITS - 1)
        setting, best = max(((setting, rate) for setting, (rate, size) in fixed.items()
                             if size <= limit), key=lambda pair: pair[1])
        made = [Run(options, [*flags, "--micro-batch=auto", f"--memory-limit={limit}"])
                for _ in range(options.repetitions)]
        rate = statistics.median(run.rate for run in made)
        kept = all(run.bytes <= limit and run.samples == global_batch * steps for run in made)
        good &= kept and rate >= SLOWEST * best
        taken = ", ".join(sorted({f"{run.micro_batch} {run.recompute}" for run in made}))
        print(f"| {name} | {limit / 2**20:.2f} MiB | {taken} | {rate:.0f} | {setting[0]} "
              f"{setting[1]} | {best:.0f} | {rate / best:.3f} | {'yes' if kept else 'NO'} |",
              flush=True)
    return good


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
