#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What watching costs a run, as shares of its step time.

observation_cost.py [--build DIR] [--repetitions N] [models...]

Runs with and without differ by more than what is looked for, so each cost is taken inside one run:
  ledger        readings of the clock a step (counted by a preloaded library, all of them, the
                watchdog's too) times what one takes at the least
  profile       readings of the clock that --profile adds to a step, and records a step times what
                one takes at the least without its two readings
  noise scale   it is measured in every second step, and steps that measure are compared with their
                neighbours that do not: the median difference, for every 25th step
  boards        the ledger's own part "logging" at the default --log-every: JSON lines, console (to
                /dev/null) and TensorBoard's file, and without TensorBoard's
One rank; medians over the repetitions, least to most in brackets.
"""
import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

PROJECT = pathlib.Path(__file__).resolve().parents[2]
MODELS = {
    "mlp": (("--model=mlp", "--hidden=128", "--data=synthetic:28x28x1:10", "--micro-batch=32"), 6000),
    "convnet": (("--model=convnet", "--data=synthetic:28x28x1:10", "--micro-batch=32"), 200),
    "resnet20": (("--model=resnet20", "--data=synthetic:32x32x3:10", "--micro-batch=16",
                  "--global-batch=64"), 120),
}
DEFAULT_EVERY = 25  # --noise-scale-every


class Runs:
    def __init__(self, build):
        self.build = build

    def train(self, flags, steps, **environment):
        """The run's summary, its steps' milliseconds where every step is logged, its profile."""
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "run"
            subprocess.run([self.build / "lockstep", "train", "--ranks=1", "--eval-every=0", "--workers=0",
                            f"--steps={steps}", f"--out={out}", *flags], check=True,
                           env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
            lines = (out / "metrics.jsonl").read_text().splitlines()
            rows = [row for row in map(json.loads, lines) if "step_ms" in row]
            profile = out / "profile.txt"
            return (json.loads((out / "summary.json").read_text()), rows,
                    profile.read_text() if profile.exists() else "")

    def clock_readings(self, flags, steps):
        with tempfile.TemporaryDirectory() as folder:
            count = pathlib.Path(folder) / "count"
            self.train(flags, steps, CLOCK_READINGS=str(count),
                       LD_PRELOAD=str(self.build / "tests/benchmarks/libclock_readings.so"))
            return int(count.read_text())


def part(summary, name):
    """Share of the ledger's whole."""
    ledger = summary["ledger"][0]
    return ledger[name] / ledger["seconds"]


def records_a_step(profile):
    """The second column, runs a step, of the first table, whose rows are operators."""
    rows = profile.split("roofline\n")[1].splitlines()
    words = itertools.takewhile(lambda of_row: len(of_row) > 1 and of_row[1] != "runs", map(str.split, rows))
    return sum(float(of_row[1]) for of_row in words)


def noise_scale_cost(rows):
    """Share of the step time that a measured step takes more, for every DEFAULT_EVERY-th step."""
    rows = rows[len(rows) // 10:]
    more = [here["step_ms"] - (before["step_ms"] + after["step_ms"]) / 2
            for before, here, after in zip(rows, rows[1:], rows[2:]) if (here["step"] - 1) % 2 == 0]
    plain = statistics.median(row["step_ms"] for row in rows if (row["step"] - 1) % 2 == 1)
    return statistics.median(more) / plain / DEFAULT_EVERY


def readings_a_step(runs, flags, steps):
    few = runs.clock_readings(flags, steps // 2)
    return (runs.clock_readings(flags, steps // 2 * 2) - few) / (steps // 2)


def costs(runs, flags, steps, takes):
    summary, _, profile = runs.train((*flags, "--profile"), steps)
    step_ns = 1e9 * summary["ledger"][0]["seconds"] / steps
    readings = readings_a_step(runs, flags, steps)
    added = readings_a_step(runs, (*flags, "--profile"), steps) - readings
    record_ns = takes["record_ns"] - 2 * takes["clock_ns"]
    boards = part(runs.train(flags, steps)[0], "logging")
    lines = part(runs.train((*flags, "--tensorboard=off"), steps)[0], "logging")
    _, rows, _ = runs.train((*flags, "--noise-scale-every=2", "--log-every=1", "--tensorboard=off"), steps)
    return {"ledger": readings * takes["clock_ns"] / step_ns,
            "profile": (added * takes["clock_ns"] + records_a_step(profile) * record_ns) / step_ns,
            "noise scale": noise_scale_cost(rows),
            "JSON, console": lines, "with TensorBoard": boards}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", default=PROJECT / "build/release", type=pathlib.Path)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    arguments = parser.parse_args()
    benchmark = arguments.build / "tests/benchmarks/observation_benchmark"
    takes = json.loads(subprocess.run([benchmark], check=True, capture_output=True, text=True).stdout)
    print(f"a reading of the clock {takes['clock_ns']:.1f} ns, a record of the profiler {takes['record_ns']:.1f} ns")
    runs = Runs(arguments.build)
    for model in arguments.models:
        flags, steps = MODELS[model]
        all_costs = [costs(runs, flags, steps, takes) for _ in range(arguments.repetitions)]
        for name in all_costs[0]:
            values = [of_run[name] for of_run in all_costs]
            print(f"| {model} | {name} | {statistics.median(values):+.3%} "
                  f"({min(values):+.3%} to {max(values):+.3%}) |", flush=True)


if __name__ == "__main__":
    main()
