#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills training runs at random moments and lets them go on with another number of ranks, until
they end: every run must end with the bits of the one that was never disturbed.

kill_and_resume.py PROGRAM [--kills N] [--seed S] [--log FILE]

A kill is SIGKILL to one rank, to all of them, or to the launcher and all of them, at a moment drawn
from the time that a run takes. Exits 1 where the bits differ, metrics.jsonl repeats a step, a start
refuses to go on, or a rank lives on 5 s after the end of its run.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TEXT = "".join(f"the {a} {b}s over the {c}.\n" for a in ("dog", "cat", "fox", "hen")
               for b in ("jump", "run", "walk", "look") for c in ("wall", "road", "lake")) * 3
CASES = {
    "mlp, momentum, dropout": [
        "--model=mlp", "--hidden=64,64", "--dropout=0.2", "--data=glyphs", "--global-batch=60",
        "--micro-batch=12", "--steps=120", "--lr=0.05", "--momentum=0.9", "--lr-schedule=cosine",
        "--augment=shift", "--eval-every=50", "--checkpoint-every=7"],
    "convnet, group batch norm, nesterov": [
        "--model=convnet", "--data=glyphs", "--global-batch=64", "--micro-batch=16",
        "--batch-norm=group:8", "--steps=40", "--lr=0.05", "--momentum=0.9", "--nesterov",
        "--weight-decay=0.001", "--dropout=0.1", "--eval-every=20", "--checkpoint-every=3"],
    "gpt, adamw, clipping": [
        "--model=gpt", "--data=text:text.txt", "--layers=2", "--heads=2", "--width=32",
        "--context=16", "--global-batch=12", "--micro-batch=3", "--optimizer=adamw", "--lr=0.003",
        "--lr-schedule=linear", "--warmup-steps=20", "--clip-norm=1", "--dropout=0.1",
        "--steps=150", "--eval-every=40", "--checkpoint-every=0.1s"],
}
ENVIRONMENT = {"LOCKSTEP_CHECKPOINT_PARTS": "small",
               "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_mpi_yield_when_idle": "1"}


def children(pid):
    """Every process below `pid`."""
    parents = collections.defaultdict(list)
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents[int(fields[1])].append(int(stat.parent.name))
    found, todo = [], [pid]
    while todo:
        below = parents[todo.pop()]
        found += below
        todo += below
    return found


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def states(pids):
    """A line for each process that is left: number, state, command."""
    lines = []
    for pid in pids:
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        lines.append(f"{pid} {state} {command.decode(errors='replace')}\n")
    return "".join(lines)


class Trainings:
    def __init__(self, program, seed):
        self.program = os.path.abspath(program)
        self.random = random.Random(seed)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-kills-"))
        (self.folder / "text.txt").write_text(TEXT)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LOCKSTEP_")}
        self.environment = {**environment, **ENVIRONMENT}

    def start(self, flags, out, ranks):
        log = open(self.folder / "output", "w")
        command = [self.program, "train", *flags, f"--out={out}", f"--ranks={ranks}",
                   "--resume=auto", "--workers=0"]
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=log,
                                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def output(self):
        return (self.folder / "output").read_text()

    def summary(self, out):
        return json.loads((self.folder / out / "summary.json").read_text())

    def undisturbed(self, flags, out):
        """The final bits, and the seconds a run on two ranks takes."""
        begin = time.monotonic()
        process = self.start(flags, out, 2)
        if process.wait(timeout=120) != 0:
            raise SystemExit("the undisturbed run failed:\n" + self.output())
        seconds = time.monotonic() - begin
        return self.summary(out)["weights_sha256"], seconds

    def strike(self, process, ranks):
        below = children(process.pid)
        way = self.random.choice(["one rank", "all ranks", "launcher and ranks"])
        own = [pid for pid in below if pid_runs(pid, self.program)] or [process.pid]
        if way == "one rank" and ranks > 1:
            kill([self.random.choice(own)])
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                raise SystemExit("a run did not end within 60 s of the death of a rank:\n" +
                                 states([process.pid, *children(process.pid)]) + self.output())
        else:
            kill(own if way == "all ranks" else [process.pid, *below])
            process.wait(timeout=60)
        end = time.monotonic() + 5
        while left := [pid for pid in below if pid_runs(pid, self.program)]:
            if time.monotonic() > end:
                raise SystemExit("left over:\n" + states(left))
            time.sleep(0.05)


def pid_runs(pid, program):
    try:
        return os.readlink(f"/proc/{pid}/exe") == program
    except OSError:
        return False


def run_until_the_end(trainings, name, flags, number, most_kills, seconds, expected):
    """Returns the kills it took."""
    out = f"run_{number}"
    for kills in range(most_kills + 1):
        ranks = trainings.random.randint(1, 4)
        process = trainings.start(flags, out, ranks)
        moment = trainings.random.uniform(0.02, 0.7 * seconds)
        try:
            code = process.wait(timeout=moment if kills < most_kills else 120)
        except subprocess.TimeoutExpired:
            trainings.strike(process, ranks)
            continue
        if code != 0:
            raise SystemExit(f"{name}: exit {code} on {ranks} ranks after {kills} kills:\n" +
                             trainings.output())
        summary = trainings.summary(out)
        if summary["weights_sha256"] != expected:
            raise SystemExit(f"{name}: other bits after {kills} kills, last on {ranks} ranks")
        steps = [json.loads(line)["step"] for line in
                 (trainings.folder / out / "metrics.jsonl").read_text().splitlines()
                 if '"loss"' in line]
        if steps != sorted(set(steps)):
            raise SystemExit(f"{name}: metrics.jsonl repeats steps: {steps}")
        shutil.rmtree(trainings.folder / out)
        return kills
    raise SystemExit(f"{name}: no end after {most_kills} kills")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log")
    arguments = parser.parse_args()
    trainings = Trainings(arguments.program, arguments.seed)
    log = open(arguments.log, "a") if arguments.log else sys.stdout
    try:
        known = {name: trainings.undisturbed(flags, f"whole_{i}")
                 for i, (name, flags) in enumerate(CASES.items())}
        total = runs = 0
        while total < arguments.kills:
            name = list(CASES)[runs % len(CASES)]
            expected, seconds = known[name]
            kills = run_until_the_end(trainings, name, CASES[name], runs,
                                      min(20, arguments.kills - total), seconds, expected)
            total += kills
            runs += 1
            print(f"{time.strftime('%H:%M:%S')} run {runs} ({name}): {kills} kills, same bits; "
                  f"{total} kills in all", file=log, flush=True)
        print(f"{total} kills, {runs} runs, all with the bits of the undisturbed run", file=log)
    finally:
        shutil.rmtree(trainings.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
