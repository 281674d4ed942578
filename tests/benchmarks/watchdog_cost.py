#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the watchdog and the comparison of replicas cost a run, as shares of its time.

watchdog_cost.py [--build DIR] [--repetitions N] [--seconds S] [models...]

Runs with and without differ by more than what is looked for, so both are taken inside one run of
two ranks:
  watchdog   processor time of the ranks' threads of that name while S seconds of training pass, of the
             ranks' time: what the training threads lose at most where no core is idle
  replicas   hashed in every second step, and steps after a hash compared with their neighbours: the
             median difference, for every 100th step. Neighbours send and compare the hashes, which is
             not in it.
Medians over the repetitions, least to most in brackets.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

from observation_cost import MODELS, PROJECT

RANKS = 2
DEFAULT_EVERY = 100  # --check-replicas-every


def training(build, out, *flags):
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return subprocess.Popen([build / "lockstep", "train", f"--ranks={RANKS}", "--eval-every=0", "--workers=0",
                             f"--out={out}", *flags], env=environment, stdout=subprocess.DEVNULL)


def watchdogs(out):
    """Seconds on the processor of every thread "watchdog" of the run, by thread."""
    seconds = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if f"--out={out}".encode() not in (process / "cmdline").read_bytes().split(b"\0"):
                continue
            for thread in (process / "task").iterdir():
                if (thread / "comm").read_text().strip() == "watchdog":
                    seconds[thread] = int((thread / "schedstat").read_text().split()[0]) / 1e9
        except OSError:
            continue  # ended meanwhile
    return seconds


def watchdog_cost(build, flags, seconds):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run"
        run = training(build, out, "--steps=1000000", *flags)
        metrics = out / "metrics.jsonl"
        try:
            while not (metrics.exists() and metrics.stat().st_size > 0):
                if run.poll() is not None:
                    raise RuntimeError(f"the run ended with code {run.returncode}")
                time.sleep(0.1)
            before, begin = watchdogs(out), time.monotonic()
            time.sleep(seconds)
            after, end = watchdogs(out), time.monotonic()
        finally:
            run.terminate()
            run.wait()
    assert len(before) == RANKS and before.keys() == after.keys(), (before, after)
    return sum(after[thread] - before[thread] for thread in after) / (RANKS * (end - begin))


def replica_cost(build, flags, steps):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run"
        run = training(build, out, f"--steps={steps}", "--check-replicas-every=2", "--log-every=1",
                       "--noise-scale-every=0", "--tensorboard=off", *flags)
        if run.wait() != 0:
            raise RuntimeError(f"the run ended with code {run.returncode}")
        lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
        rows = [row for row in lines if "step_ms" in row]
    rows = rows[len(rows) // 10:]
    pairs = [(rows[i]["step_ms"], (rows[i - 1]["step_ms"] + rows[i + 1]["step_ms"]) / 2)
             for i in range(1, len(rows) - 1) if rows[i]["step"] % 2 == 1]  # hashed after the row before
    plain = statistics.median(others for _, others in pairs)
    return statistics.median(own - others for own, others in pairs) / plain / DEFAULT_EVERY


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", default=PROJECT / "build/release", type=pathlib.Path)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    arguments = parser.parse_args()
    for model in arguments.models:
        flags, steps = MODELS[model]
        for name, values in (
                ("watchdog", [watchdog_cost(arguments.build, flags, arguments.seconds)
                              for _ in range(arguments.repetitions)]),
                ("replicas", [replica_cost(arguments.build, flags, steps)
                              for _ in range(arguments.repetitions)])):
            print(f"| {model} | {name} | {statistics.median(values):+.4%} "
                  f"({min(values):+.4%} to {max(values):+.4%}) |", flush=True)


if __name__ == "__main__":
    main()
