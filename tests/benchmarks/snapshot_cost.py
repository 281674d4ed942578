#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What snapshots in memory cost a quiet run: within one run, windows of steps with a snapshot and those around them.

snapshot_cost.py [--program FILE] [--seconds S] [--hosts 2] [cases...]

A run prints its steps in windows. A snapshot is in the windows from the one with its step to the one in which its folder
was complete. What these took longer than as many steps of the windows between this snapshot and its neighbours is what
the snapshot cost: stall, the writing thread, and what that takes of caches and memory. So each is compared with the
seconds around it, which a neighbour on the machine disturbs alike. Evaluations and checkpoints are off.

With --hosts 2 each of the two ranks has a host, a network namespace (network_hosts.py; needs root), and what a snapshot
costs includes the copy to the other host. "Complete" is it then where rank 0 is.

Prints milliseconds a step and a snapshot (mean and its standard error), the interval that --snapshot-every auto chooses
(at least 1 s, and 200 times what a snapshot takes: measured where the case runs with auto, else reckoned from how long
one was written), and the share: milliseconds a snapshot / interval.
"""
import argparse
import contextlib
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from network_hosts import MPI_ON_HOSTS, CannotRun, Hosts, end_by_exception

PROJECT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "LOCKSTEP_"))},
               "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
TEXT = f"text:{PROJECT / 'docs/commands/train.md'}"
MIN_INTERVAL_S, SHARE = 1, 0.005  # parallel/training/snapshot_pace.h
CASES = {  # flags, steps in a window, --snapshot-every
    "convnet": (("--model=convnet", "--data=synthetic:28x28x1:10", "--micro-batch=32", "--global-batch=64"), 5, "auto"),
    "nanogpt": (("--model=gpt", "--layers=4", "--heads=4", "--width=128", "--context=64", "--tied-head=on", "--dropout=0",
                 "--optimizer=adamw", f"--data={TEXT}", "--micro-batch=6", "--global-batch=12"), 5, "auto"),
    "gpt2-124m": (("--model=gpt2-124m", "--optimizer=adamw", f"--data={TEXT}", "--micro-batch=1", "--global-batch=2"), 1, "30s"),
}


class Run:
    """`lines`: (step, when its line came); `written`: {step of a snapshot: when its folder was complete}."""

    def __init__(self, program, flags, every, snapshots, seconds, hosts):
        self.lines, self.written, self.hosts = [], {}, hosts
        before, after, environment = [], [], ENVIRONMENT
        if hosts:
            before, environment = hosts.inside(0), {**ENVIRONMENT, **MPI_ON_HOSTS}
            after = [f"--hosts={','.join(f'{address}:1' for address in hosts.addresses)}", f"--ssh={hosts.agent}"]
        with tempfile.TemporaryDirectory() as folder:
            self.out = pathlib.Path(folder) / "run"
            command = [*before, program, "run", "--ranks=2", *after, f"--out={self.out}", "--steps=100000000", "--lr-schedule=constant",
                       f"--log-every={every}", "--eval-every=0", "--checkpoint-every=1000h",
                       f"--snapshot-every={snapshots}", "--noise-scale-every=0", "--tensorboard=off", *flags]
            with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as self.process:
                watcher = threading.Thread(target=self.watch)
                watcher.start()
                for line in self.process.stdout:
                    if step := re.match(r"step (\d+)/", line):
                        self.lines.append((int(step[1]), time.monotonic()))
                        if self.lines[-1][1] - self.lines[0][1] > seconds and self.process.poll() is None:
                            self.process.terminate()
                            seconds = float("inf")
                self.process.wait()
                watcher.join()
        if self.process.returncode not in (0, 75):
            raise SystemExit(f"{' '.join(map(str, command))}: exit code {self.process.returncode}")

    def watch(self):
        memory = None
        while self.process.poll() is None:
            time.sleep(0.002)
            try:
                memory = memory or self.memory_of_rank_0(pathlib.Path((self.out / ".snapshots").read_text().split("\n")[0]))
                for name in os.listdir(memory):
                    if re.fullmatch(r"step_\d+", name):
                        self.written.setdefault(int(name[5:]), time.monotonic())
            except OSError:
                continue

    def memory_of_rank_0(self, path):
        return self.hosts.memory[0] / path.name if self.hosts else path


def costs(run):
    """(seconds that each snapshot cost, seconds from its step until it was written), and seconds a step without."""
    windows = [(first, last, begin, end) for (first, begin), (last, end) in zip(run.lines, run.lines[1:])]
    snapshots = sorted(run.written.items())
    # The program warms up in its first tenth, and its end is not training.
    begin, end = run.lines[len(run.lines) // 10][1], run.lines[-1][1]
    found, plain = [], []

    def of(step, written):
        """Indices of the windows that a snapshot is in."""
        return {i for i, (first, last, since, until) in enumerate(windows)
                if first < step <= last or (last >= step and since < written)}

    inside = [of(step, written) for step, written in snapshots]
    busy = set().union(*inside)
    for n, (step, written) in enumerate(snapshots):
        mine = inside[n]
        if not mine or windows[min(mine)][2] < begin or written > end:
            continue
        after = min(inside[n + 1]) if n + 1 < len(snapshots) and inside[n + 1] else len(windows)
        before = max(inside[n - 1]) if n > 0 and inside[n - 1] else -1
        around = [windows[i] for i in range(before + 1, after) if i not in busy]
        if len(around) < 4:
            continue
        step_s = sum(w[3] - w[2] for w in around) / sum(w[1] - w[0] for w in around)
        plain.append(step_s)
        took = sum(windows[i][3] - windows[i][2] for i in mine)
        steps = sum(windows[i][1] - windows[i][0] for i in mine)
        # It is taken after its step.
        taken = next(w[3] if w[1] == step else w[2] for w in windows if w[0] < step <= w[1])
        found.append((took - steps * step_s, written - taken))
    return found, statistics.mean(plain) if plain else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=PROJECT / "build/release/lockstep")
    parser.add_argument("--seconds", type=float, default=120, help="of each case")
    parser.add_argument("--hosts", type=int, choices=[1, 2], default=1)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    arguments = parser.parse_args()
    end_by_exception()
    with contextlib.ExitStack() as stack:
        hosts = None
        if arguments.hosts > 1:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lockstep-snapshot-hosts-"))
            try:
                hosts = stack.enter_context(Hosts(folder, arguments.hosts))
            except CannotRun as error:
                sys.exit(f"snapshot_cost.py: {error}")
        measure(arguments, hosts)


def measure(arguments, hosts):
    print("| case | ms a step | snapshots | ms a snapshot | interval | share of the time |\n|---|--:|--:|--:|--:|--:|")
    for case in arguments.cases:
        flags, every, snapshots = CASES[case]
        run = Run(arguments.program, flags, every, snapshots, arguments.seconds, hosts)
        found, step_s = costs(run)
        if len(found) < 2:
            raise SystemExit(f"{case}: {len(found)} snapshots to compare in {arguments.seconds:g} s")
        excess = [cost for cost, _ in found]
        error = statistics.stdev(excess) / len(excess) ** 0.5
        moments = sorted(run.written.values())
        if snapshots == "auto":
            interval = statistics.median(b - a for a, b in zip(moments, moments[1:]))
        else:
            interval = max(MIN_INTERVAL_S, statistics.median(seconds for _, seconds in found) / SHARE)
        print(f"| {case} | {1e3 * step_s:.4g} | {len(found)} | {1e3 * statistics.mean(excess):.2f} ± {1e3 * error:.2f} "
              f"| {interval:.1f} s | {100 * statistics.mean(excess) / interval:.3f} ± {100 * error / interval:.3f}% |",
              flush=True)


if __name__ == "__main__":
    main()
