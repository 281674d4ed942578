#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a supervised run takes from the death of a rank to the next step, and what it loses.

recovery_times.py [--program FILE] [--ranks N] [--survivors] [--kills N] [--seed S] [--snapshot-every TIME]
                  [train flags...]

Starts `lockstep run` of a small mlp (or of what the flags say), kills a random rank at a random moment with SIGKILL,
waits until training continues, and does that again. With --survivors the ranks outlive each other (Open MPI 5), and all
are started again before the next kill. Prints the median and the worst of each phase:
  detect    seconds from the signal until the supervisor passes on that a rank was ended
  end       until it starts ranks again: the others have ended; of survivors: until they agree on who is left
  start     until rank 0 says what it resumes from: processes, MPI, data, the snapshot
  step      until the first step after that is logged
  total     of these four
  lost      steps that were logged before and had to be done again
Then compares the weights with those of an undisturbed run.
"""
import argparse
import atexit
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

PROJECT = pathlib.Path(__file__).resolve().parents[2]
LIMIT_S = 60
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
MLP = ["--model=mlp", "--hidden=256,256", "--data=glyphs", "--global-batch=64", "--micro-batch=16", "--lr=0.02",
       "--momentum=0.9"]
PHASES = ("detect", "end", "start", "step", "total", "lost")


def ranks_of(out):
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            is_rank = b"OMPI_COMM_WORLD_RANK=" in (process / "environ").read_bytes()
        except OSError:
            continue  # ended meanwhile
        if is_rank and any(str(out).encode() in word for word in words):
            found.append(int(process.name))
    return found


class Run:
    def __init__(self, options, out, steps, *flags, inside=()):
        """`inside`: words that start the command on a host."""
        ranks = [f"--ranks={options.ranks}"]
        if options.survivors:
            ranks = [f"--ranks=1:{options.ranks}", f"--hosts=localhost:{options.ranks}"]
        command = [*inside, options.program, "run", *ranks, f"--out={out}", f"--steps={steps}", "--log-every=1",
                   "--eval-every=0", "--checkpoint-every=1000h", f"--snapshot-every={options.snapshot_every}",
                   "--noise-scale-every=0", "--tensorboard=off", "--max-restarts=1000", "--backoff=0", *(options.flags or MLP), *flags]
        self.process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        stdin=subprocess.DEVNULL)
        atexit.register(self.process.terminate)  # whatever ends this script
        self.lines, self.changed = [], threading.Condition()  # (when it came, line)
        for stream in (self.process.stdout, self.process.stderr):
            threading.Thread(target=self.read, args=(stream,), daemon=True).start()

    def read(self, stream):
        for line in stream:
            with self.changed:
                self.lines.append((time.monotonic(), line))
                self.changed.notify_all()

    def await_line(self, pattern, since):
        """When the first such line after the moment `since` came, and the match."""
        deadline, seen = time.monotonic() + LIMIT_S, 0
        with self.changed:
            while True:
                for moment, line in self.lines[seen:]:
                    if moment >= since and (match := re.search(pattern, line)):
                        return moment, match
                seen = len(self.lines)
                if not self.changed.wait(deadline - time.monotonic()):
                    sys.exit(f"no line like {pattern}; the last ones:\n" + "".join(l for _, l in self.lines[-20:]))

    def newest_step(self):
        with self.changed:
            steps = [int(m[1]) for _, line in self.lines if (m := re.search(r"step (\d+)/", line))]
            self.lines.clear()
        return steps[-1]


def kill_once(run, out, dice):
    run.await_line(r"step (\d+)/", 0)
    time.sleep(dice.uniform(2, 4))  # for a snapshot to be there
    victim = dice.choice(ranks_of(out))
    step = run.newest_step()
    killed = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    started, how = run.await_line(r"lockstep run: starting|ranks are left, and continue", killed)
    resumed_at, resumed = run.await_line(r"resume .* (\d+) steps done|step 1/", started)  # or from the beginning
    continued, _ = run.await_line(r"step (\d+)/", resumed_at)
    if "left" in how[0]:
        run.await_line(r"step (\d+)/", run.await_line(r"lockstep run: starting", continued)[0])
    moments = [killed, run.await_line(r"died without a word|was ended by signal 9", killed)[0], started, resumed_at, continued]
    seconds = [b - a for a, b in zip(moments, moments[1:])]
    return dict(zip(PHASES, [*seconds, moments[-1] - killed, max(0, step - int(resumed[1] or 0))]))


def repeat(measure, times, phases):
    """Prints what `measure` returns, each time and of all."""
    rows = []
    for number in range(times):
        rows.append(measure())
        print(number + 1, *(f"{name} {rows[-1][name]:.2f}" for name in phases), flush=True)
    for name in phases:
        values = [row[name] for row in rows]
        print(f"{name:7} median {statistics.median(values):7.2f}  worst {max(values):7.2f}")


def are_equal(options, run, out, again):
    """Whether `run`, which was asked to stop, has the weights of a run into `again` that nothing happens to."""
    if run.process.wait(timeout=LIMIT_S) != 75:
        sys.exit("the run did not stop with a checkpoint")
    step = max(int(p.name[5:]) for p in (out / "checkpoints").glob("step_*"))
    if Run(options, again, step).process.wait() != 0:
        sys.exit("the undisturbed run failed")
    manifest = json.loads((out / "checkpoints" / f"step_{step:08}" / "manifest.json").read_text())
    same = json.loads((again / "checkpoints" / f"step_{step:08}" / "manifest.json").read_text())
    files = [name for name in manifest["files"] if name.endswith(".safetensors")]
    equal = all(manifest["files"][name] == same["files"][name] for name in files)
    print(f"weights and optimizer state after step {step}: {'equal' if equal else 'DIFFERENT'}")
    return equal


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=PROJECT / "build/release/lockstep")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--survivors", action="store_true")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--snapshot-every", default="auto")
    options, options.flags = parser.parse_known_args()
    if options.survivors:  # as with mpirun --oversubscribe, which knows that ranks share cores
        ENVIRONMENT["OMPI_MCA_mpi_yield_when_idle"] = "1"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    dice = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="lockstep-recovery-") as folder:
        out = pathlib.Path(folder) / "disturbed"
        run = Run(options, out, 100_000_000)
        repeat(lambda: kill_once(run, out, dice), options.kills, PHASES)
        run.process.send_signal(signal.SIGTERM)
        sys.exit(0 if are_equal(options, run, out, pathlib.Path(folder) / "undisturbed") else 1)


if __name__ == "__main__":
    main()
