#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a supervised run takes from the loss of a host to the next step, and what it loses.

lost_hosts.py [--program FILE] [--hosts N] [--slots N] [--losses N] [--seed S] [--snapshot-every TIME] [train flags...]

Hosts are network namespaces with a name and a /dev/shm of their own (network_hosts.py). `lockstep run` trains on all of
them from the first; another one is lost at a random moment, as without power, and comes back when the run trains on the
others. Prints the median and the worst of each phase:
  detect    seconds from the loss until a rank says that another one is silent
  end       until ranks are started on the other hosts
  start     until rank 0 says what it resumes from
  step      until the first step after that is logged
  after     of the last three
  lost      steps that were logged before and had to be done again
Then compares the weights with those of an undisturbed run on this machine as it is. Needs root.
"""
import argparse
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

from network_hosts import MPI_ON_HOSTS, CannotRun, Hosts, end_by_exception
from recovery_times import ENVIRONMENT, PROJECT, Run, are_equal, repeat

PHASES = ("detect", "end", "start", "step", "after", "lost")


def lose_once(run, hosts, dice):
    run.await_line(r"step (\d+)/", 0)
    time.sleep(dice.uniform(3, 5))  # for a snapshot to be there
    victim = dice.randrange(1, hosts.count)
    step = run.newest_step()
    lost = time.monotonic()
    hosts.lose(victim)
    detected, _ = run.await_line(r"no sign of life|hears of no other host", lost)
    started, _ = run.await_line(r"lockstep run: starting", lost)
    resumed_at, resumed = run.await_line(r"resume .* (\d+) steps done|step 1/", started)  # or from the beginning
    continued, _ = run.await_line(r"step (\d+)/", resumed_at)
    moments = [lost, detected, started, resumed_at, continued]
    hosts.bring_back(victim)
    moved, _ = run.await_line(rf"lockstep run: starting {hosts.count * hosts.slots} ranks", continued)
    run.await_line(r"step (\d+)/", run.await_line(r"resume .* steps done", moved)[0])
    seconds = [b - a for a, b in zip(moments, moments[1:])]
    return dict(zip(PHASES, [*seconds, moments[-1] - moments[1], max(0, step - int(resumed[1] or 0))]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=PROJECT / "build/release/lockstep")
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--losses", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--snapshot-every", default="auto")
    parser.set_defaults(survivors=False)
    options, options.flags = parser.parse_known_args()
    end_by_exception()
    ENVIRONMENT.update(MPI_ON_HOSTS)
    dice = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="lockstep-lost-hosts-") as folder:
        out = pathlib.Path(folder) / "disturbed"
        try:
            with Hosts(folder, options.hosts, options.slots) as hosts:
                options.ranks = f"1:{options.hosts * options.slots}"
                listed = ",".join(f"{address}:{options.slots}" for address in hosts.addresses)
                run = Run(options, out, 100_000_000, f"--hosts={listed}", f"--ssh={hosts.agent}", inside=hosts.inside(0))
                repeat(lambda: lose_once(run, hosts, dice), options.losses, PHASES)
                os.kill(run.process.pid, signal.SIGTERM)
                run.process.wait(timeout=60)
        except CannotRun as error:
            sys.exit(f"lost_hosts.py: {error}")
        options.ranks = 2
        for name in MPI_ON_HOSTS:
            del ENVIRONMENT[name]
        sys.exit(0 if are_equal(options, run, out, pathlib.Path(folder) / "undisturbed") else 1)


if __name__ == "__main__":
    main()
