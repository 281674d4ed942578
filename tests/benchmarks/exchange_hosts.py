#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The exchange of gradients between hosts with slow links: in one level, in two, and fast.

exchange_hosts.py [--hosts 2x2,4x1,4x2] [--elements N] [--rounds N] [--rate MBIT] [--build DIR]

Hosts are network namespaces (network_hosts.py); 4x2 is four hosts with two ranks each. In turn, so
many rounds: `--reduction reproducible` in one level ("flat"), as it is on such hosts ("two levels",
where a host has several ranks), `--reduction fast`, and one MPI_Allreduce of everything. Ranks do
nothing else meanwhile, so all of the time is exposed. Prints for each the bytes that the busiest
host sends: planned (host_traffic.h; fast and MPI_Allreduce as a ring of all ranks), and counted at
its interface, headers included, so that more of them than planned are expected; and seconds of an
exchange: predicted (planned bytes over the rate of a TCP stream measured before), and the median
(least to most) of the rounds. A kind whose counted bytes are off by more than 10% of its plan is
marked; of the last two MPI chooses the way. Needs root, ip, tc and two cores. Exit code 77 where nothing could be measured. The ranks
share the cores of this machine: what they compute and copy takes time that real hosts do not need.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile

from comparison_output import PROJECT, print_table
from network_hosts import LINK, CannotRun, Hosts, end_by_exception, run
from rank_processes import say

SKIPPED = 77
LARGEST_ERROR = 0.10
LIMITED_TO_PLAN = ("flat", "two levels")


def measure(options, folder, count, slots):
    """Rows of one number of hosts and ranks."""
    with Hosts(folder, count, slots, options.rate) as hosts:
        rate = hosts.tcp_bytes_per_s()
        text = run(*hosts.mpirun(options.program, options.elements, options.rounds, LINK))
    for line in text.splitlines():
        kind = json.loads(line)
        if kind["hosts"] != count:
            raise RuntimeError(f"ranks found {kind['hosts']} hosts, {count} were made")
        sent, seconds = statistics.median(kind["sent"]), kind["seconds"]
        error = sent / kind["planned"] - 1
        far = kind["kind"] in LIMITED_TO_PLAN and abs(error) > LARGEST_ERROR
        yield [f"{count} x {slots}", kind["kind"], f"{kind['planned'] / 1e6:.1f}",
               f"{sent / 1e6:.1f} ({error:+.1%}{', TOO FAR' if far else ''})",
               f"{kind['planned'] / rate:.2f}",
               f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})",
               f"{rate / 1e6:.1f}"]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--hosts", default="2x2,4x1,4x2")
    parser.add_argument("--elements", type=int, default=25_000_000, help="fp32, of the model")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rate", type=int, default=1000, help="Mbit/s of a host's link")
    parser.add_argument("--build", type=pathlib.Path, default=PROJECT / "build" / "release")
    options = parser.parse_args()
    options.program = (options.build / "tests/benchmarks/exchange_hosts_benchmark").resolve()
    options.hosts = [tuple(map(int, hosts.split("x"))) for hosts in options.hosts.split(",")]
    return options


def main():
    options = parse()
    end_by_exception()
    load, rows = os.getloadavg()[0], []
    with tempfile.TemporaryDirectory(prefix="lockstep-exchange-hosts-") as folder:
        for count, slots in options.hosts:
            try:
                for row in measure(options, folder, count, slots):
                    rows.append(row)
                    say(" | ".join(row))
            except CannotRun as reason:
                say(f"{count} hosts, {slots} ranks each: left out: {reason}")
    if not rows:
        return SKIPPED
    print(f"{options.elements} elements, {options.rounds} rounds, links of {options.rate} Mbit/s, "
          f"load average at the start {load:.1f}\n")
    print_table(["hosts x ranks", "exchange", "planned, MB", "counted, MB", "predicted, s",
                 "measured, s", "TCP, MB/s"], rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
