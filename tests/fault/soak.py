#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random faults, one after the other, on a run that `lockstep run` stands by.

soak.py PROGRAM SHIM [--minutes M] [--every SECONDS] [--faults N] [--steps N] [--ranks N|MIN:MAX] [--kinds usual|all]
        [--step-ms T] [--seed S] [--log FILE]

The run is of so many steps that it takes about M minutes undisturbed, and meets a fault every
SECONDS on average, N at most: a rank or mpirun killed, a rank stopped (until the others give it up),
SIGTERM and a new start by hand, as a requeue would do, or a disk that is full for two seconds. With
--kinds all also two ranks killed at once, a rank killed while others recover from the death of
another, all ranks killed and their snapshots in memory lost, and `lockstep run` killed with all below
it and started anew by hand. It has to end with the bits of the undisturbed run, no step told twice
and nothing left over, and never hangs, which is no output for a minute. Prints what a fault cost by the fault
lines of metrics.jsonl, and the useful share of time:

  undisturbed seconds / (seconds of the run - injected downtime)

and the same without the downtime taken off.

Every rank sleeps T ms in each step (default 10), so that the machine has time for other work; the
undisturbed run of all steps, for the bits, does not, and the undisturbed seconds are reckoned: the
median time of a step in the disturbed run (of the averages in metrics.jsonl), times the steps. So a
load on the machine that comes or goes changes both. Injected downtime: the time
that a rank was stopped, and that between the end of a stopped run and its next start. What
restarts and lost steps cost is not taken off.
"""
import argparse
import collections
import json
import math
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from kill_and_resume import children, pid_runs, states
from played_run import LAUNCHER_PREFIXES, OPEN_MPI, lives, send

FLAGS = ["--model=mlp", "--hidden=256,256", "--dropout=0.1", "--data=glyphs", "--global-batch=64",
         "--micro-batch=16", "--lr=0.02", "--momentum=0.9", "--lr-schedule=cosine",
         "--log-every=50", "--eval-every=2000", "--checkpoint-every=2s", "--timeout=3",
         *(f"--timeout-{stage}=10" for stage in ("start", "evaluation", "save"))]
STANDING_BY = ["--max-restarts=1000000", "--backoff=0", "--grace=30"]
DISK_FULL_S = 2
HANG_S = 60
USUAL = ("kill a rank", "kill mpirun", "stop a rank", "SIGTERM and requeue", "disk full")
KINDS = {"usual": USUAL, "all": (*USUAL, "kill two ranks", "kill during recovery", "lose the snapshots",
                                 "kill lockstep run")}


class Soak:
    def __init__(self, program, shim, ranks, step_ms, log):
        self.program, self.shim, self.log = program, shim, log
        self.ranks = [f"--ranks={ranks}"]
        if ":" in ranks:  # as many as that although the host has fewer cores
            self.ranks.append(f"--hosts=localhost:{ranks.split(':')[1]}")
        self.pace = {"LOCKSTEP_FAULT": "rank=*,stage=training,phase=loading,times=1000000000,"
                                       f"do=sleep:{step_ms / 1000}"} if step_ms > 0 else {}
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-soak-"))
        self.full = self.folder / "disk_is_full"
        clean = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHER_PREFIXES)}
        self.environment = {**clean, **OPEN_MPI, "LD_PRELOAD": shim, "FAIL_PROGRAM": program,
                            "FAIL_CALLS": "write", "FAIL_WITHIN": "/checkpoints",
                            "FAIL_WHILE": str(self.full)}
        self.downtime = collections.Counter()
        self.played = collections.Counter()

    def start(self, out, steps, paced=True):
        output = open(self.folder / f"{out}.output", "a")
        command = [self.program, "run", *FLAGS, *STANDING_BY, *self.ranks, f"--steps={steps}",
                   f"--out={out}"]
        return subprocess.Popen(command, cwd=self.folder, stdout=output,
                                env={**self.environment, **(self.pace if paced else {})},
                                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def output(self, out):
        return (self.folder / f"{out}.output").read_text(errors="replace")

    def summary(self, out):
        return json.loads((self.folder / out / "summary.json").read_text())

    def whole(self, out, steps, paced=True):
        """Seconds and weights of an undisturbed run."""
        began = time.monotonic()
        code = self.start(out, steps, paced).wait()
        if code != 0:
            raise SystemExit(f"the undisturbed run ended with {code}:\n{self.output(out)[-2000:]}")
        return time.monotonic() - began, self.summary(out)["weights_sha256"]

    def below(self, process):
        """(ranks, mpirun) that live now."""
        ranks, launcher = [], None
        for pid in children(process.pid):
            try:
                name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
                in_job = b"OMPI_COMM_WORLD_RANK=" in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                continue
            if name in ("mpirun", "orterun", "prterun"):
                launcher = pid
            elif in_job and pid_runs(pid, self.program):
                ranks.append(pid)
        return ranks, launcher

    def play(self, kind, draw, process, out, steps):
        """Returns the process of the run, which may be a new one; None: nothing could be done."""
        ranks, launcher = self.below(process)
        if not ranks or launcher is None:
            return None
        if kind == "kill a rank":
            send(draw.choice(ranks), signal.SIGKILL)
        elif kind == "kill two ranks":
            for rank in draw.sample(ranks, min(2, len(ranks))):
                send(rank, signal.SIGKILL)
        elif kind == "kill during recovery":
            send(draw.choice(ranks), signal.SIGKILL)
            time.sleep(draw.uniform(0.05, 1.5))
            left, _ = self.below(process)
            if left:
                send(draw.choice(left), signal.SIGKILL)
        elif kind == "lose the snapshots":
            for rank in ranks:
                send(rank, signal.SIGSTOP)  # so that none writes another one
            self.lose_snapshots(out)
            for rank in ranks:
                send(rank, signal.SIGKILL)
        elif kind == "kill lockstep run":
            for pid in (process.pid, *children(process.pid)):
                send(pid, signal.SIGSTOP)
            for pid in (*children(process.pid), process.pid):
                send(pid, signal.SIGKILL)
            process.wait()
            process = self.start(out, steps)
        elif kind == "kill mpirun":
            send(launcher, signal.SIGKILL)
        elif kind == "stop a rank":
            self.stop(draw.choice(ranks), process)
        elif kind == "disk full":
            self.full.touch()
            time.sleep(DISK_FULL_S)
            self.full.unlink()
        else:
            process.send_signal(signal.SIGTERM)
            code = process.wait(timeout=120)
            ended = time.monotonic()
            if code == 0:
                return process
            if code != 75:
                raise SystemExit(f"exit code {code} after SIGTERM:\n{self.output(out)[-2000:]}")
            process = self.start(out, steps)
            self.downtime[kind] += time.monotonic() - ended
        return process

    def lose_snapshots(self, out):
        try:
            memory = pathlib.Path((self.folder / out / ".snapshots").read_text().split("\n")[0])
        except OSError:
            return
        for snapshot in memory.glob("step_*"):
            shutil.rmtree(snapshot, ignore_errors=True)

    def stop(self, rank, process):
        began = time.monotonic()
        send(rank, signal.SIGSTOP)
        while lives(rank) and process.poll() is None:
            if time.monotonic() > began + 60:
                raise SystemExit("a stopped rank was not given up within 60 s:\n" +
                                 states([process.pid, *children(process.pid)]))
            time.sleep(0.01)
        self.downtime["stop a rank"] += time.monotonic() - began

    def moves(self, process, out):
        """Ends everything where the run has written nothing for so long."""
        moved = os.path.getmtime(self.folder / f"{out}.output")
        if time.time() - moved > HANG_S:
            raise SystemExit(f"the run hangs:\n{states([process.pid, *children(process.pid)])}\n" +
                             self.output(out)[-3000:])

    def disturbed(self, out, steps, every, faults, kinds, draw):
        """Seconds until the run was complete."""
        began = time.monotonic()
        process = self.start(out, steps)
        due = began + draw.expovariate(1 / every)
        while True:
            try:
                code = process.wait(timeout=min(max(0, due - time.monotonic()), HANG_S / 6))
            except subprocess.TimeoutExpired:
                self.moves(process, out)
                if time.monotonic() < due:
                    continue
                if sum(self.played.values()) >= faults:
                    due = math.inf
                    continue
                kind = draw.choice(kinds)
                next_process = self.play(kind, draw, process, out, steps)
                due = time.monotonic() + draw.expovariate(1 / every)
                if next_process is None:
                    continue
                process = next_process
                self.played[kind] += 1
                print(f"{time.strftime('%H:%M:%S')} {kind}; {sum(self.played.values())} in all",
                      file=self.log, flush=True)
                continue
            if code != 0:
                raise SystemExit(f"exit code {code}:\n{self.output(out)[-3000:]}")
            return time.monotonic() - began

    def cost(self, out):
        """Of the faults in metrics.jsonl: lost steps and seconds, median and worst; how many were outlived."""
        lines = [json.loads(line) for line in (self.folder / out / "metrics.jsonl").read_text().splitlines()
                 if '"fault"' in line]
        if not lines:
            return "no fault in metrics.jsonl"
        steps = [line["lost_steps"] for line in lines if line["lost_steps"] >= 0]  # -1: not known
        seconds = [line["seconds"] for line in lines]
        lost = f"steps lost {statistics.median(steps):.0f}, worst {max(steps)}" if steps else "steps lost not known"
        return (f"{len(lines)} faults in metrics.jsonl, {sum(line['survivors'] > 0 for line in lines)} of them outlived: {lost}; "
                f"seconds {statistics.median(seconds):.2f}, worst {max(seconds):.2f}")

    def step_s(self, out):
        """The median of the steps, by the lines of metrics.jsonl."""
        lines = (self.folder / out / "metrics.jsonl").read_text().splitlines()
        return statistics.median(json.loads(line)["step_ms"] for line in lines if '"loss"' in line) / 1000

    def check(self, out, expected):
        wrong = []
        if self.summary(out)["weights_sha256"] != expected:
            wrong.append("other bits than the undisturbed run")
        lines = (self.folder / out / "metrics.jsonl").read_text().splitlines()
        told = [json.loads(line)["step"] for line in lines if '"loss"' in line]
        if told != sorted(set(told)):
            wrong.append("metrics.jsonl repeats steps")
        time.sleep(1)
        left = [int(p.name) for p in pathlib.Path("/proc").glob("[0-9]*")
                if pid_runs(p.name, self.program) and self.of_this_soak(p)]
        if left:
            wrong.append("left over:\n" + states(left))
        return wrong

    def of_this_soak(self, process):
        try:
            return str(self.full).encode() in (process / "environ").read_bytes()
        except OSError:
            return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program")
    parser.add_argument("shim")
    parser.add_argument("--minutes", type=float, default=60, help="of undisturbed training")
    parser.add_argument("--every", type=float, default=30, help="seconds between faults")
    parser.add_argument("--faults", type=int, default=10**9, help="at most")
    parser.add_argument("--ranks", default="2")
    parser.add_argument("--kinds", choices=KINDS, default="usual")
    parser.add_argument("--step-ms", type=float, default=10)
    parser.add_argument("--steps", type=int, help="instead of --minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log")
    arguments = parser.parse_args()
    log = open(arguments.log, "a", encoding="utf-8") if arguments.log else sys.stdout
    soak = Soak(os.path.abspath(arguments.program), os.path.abspath(arguments.shim),
                arguments.ranks, arguments.step_ms, log)
    try:
        soak.whole("warm", 200)
        short = soak.whole("shorter", 200)[0]
        step_s = (soak.whole("short", 1200)[0] - short) / 1000
        sample = max(1200, int(60 / step_s))
        step_s = (soak.whole("sample", sample)[0] - short) / (sample - 200)
        steps = arguments.steps or max(500, int(arguments.minutes * 60 / step_s))
        expected = soak.whole("whole", steps, paced=False)[1]
        print(f"{steps} steps of about {step_s * 1000:.2f} ms", file=log, flush=True)
        wall = soak.disturbed("run", steps, arguments.every, arguments.faults, KINDS[arguments.kinds],
                              random.Random(arguments.seed))
        wrong = soak.check("run", expected)
        down = sum(soak.downtime.values())
        seconds = steps * soak.step_s("run")
        counts = ", ".join(f"{n} x {kind}" for kind, n in sorted(soak.played.items()))
        print(f"{sum(soak.played.values())} faults ({counts}) in {wall:.1f} s; {steps} steps of "
              f"{1000 * seconds / steps:.2f} ms; injected downtime "
              f"{down:.1f} s; useful share {seconds / (wall - down):.2%}, {seconds / wall:.2%} of all; "
              f"{soak.cost('run')}; {'; '.join(wrong) or 'same bits'}", flush=True)
    finally:
        shutil.rmtree(soak.folder, ignore_errors=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
