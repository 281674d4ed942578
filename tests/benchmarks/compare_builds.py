#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Step times of two builds of the program, run in turn on this machine.

usage: compare_builds.py OLD NEW [--cases NAME,...] [--pairs N] [--scale X] [--mnist DIR] [--text FILE]

OLD and NEW are `lockstep` programs. Cases are those of compare_pytorch.py. A pair is one training by each, the first
of a pair by turns; its ratio is NEW's milliseconds a step over OLD's. Prints for each case both medians, the median of
the ratios (least to most), and whether all runs ended with the same weights. Exit code 1 where a run failed.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import types

from compare_pytorch import DATA, run_lockstep
from comparison_cases import CASES
from comparison_output import print_table, processor
from rank_processes import say

CASES_BY_NAME = {case.name: case for case in CASES}


def weights_of(folder):
    return json.loads((folder / "run/summary.json").read_text())["weights_sha256"]


def measure(case, programs, options):
    """A row of the table; None where a run failed."""
    times, digests = {program: [] for program in programs}, set()
    flags = next(iter(case.ours.values()))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for pair in range(options.pairs):
            for program in programs if pair % 2 == 0 else programs[::-1]:
                milliseconds = run_lockstep(program, case, flags, folder, options)
                if milliseconds is None:
                    return None
                times[program].append(milliseconds)
                digests.add(weights_of(folder))
            say(f"{case.name} {pair + 1}/{options.pairs}: "
                + " against ".join(f"{times[program][-1]:.4f}" for program in programs[::-1]) + " ms")
    old, new = (times[program] for program in programs)
    ratios = [after / before for before, after in zip(old, new)]
    return (case.name, f"{statistics.median(old):.4g}", f"{statistics.median(new):.4g}",
            f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})",
            "equal" if len(digests) == 1 else "different")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--cases", default="iris,mlp-784-32-10-batch-120,convnet,nanogpt,resnet18")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the steps of each case")
    parser.add_argument("--mnist", type=pathlib.Path, default=DATA / "mnist")
    parser.add_argument("--text", type=pathlib.Path, default=DATA / "tinyshakespeare.txt")
    arguments = parser.parse_args()
    names = arguments.cases.split(",")
    if unknown := [name for name in names if name not in CASES_BY_NAME]:
        parser.error(f"unknown case {unknown[0]} (known: {', '.join(CASES_BY_NAME)})")
    if arguments.pairs < 1:
        parser.error("--pairs: expected 1 or more")
    for program in (arguments.old, arguments.new):
        if not program.is_file():
            parser.error(f"there is no program {program}")
    if arguments.old.resolve() == arguments.new.resolve():
        parser.error("OLD and NEW are the same file")
    options = types.SimpleNamespace(**vars(arguments), steps=0)
    programs = [arguments.old.resolve(), arguments.new.resolve()]
    builds = [json.loads(subprocess.run([program, "--version", "--json"], capture_output=True, text=True, check=True)
                         .stdout)["lockstep"] for program in programs]
    print(f"{processor()}, {os.cpu_count()} cores, {arguments.pairs} pairs: "
          + " and ".join(f"{build['commit'][:8]} ({build['build_type']})" for build in builds) + "\n")
    rows = [measure(CASES_BY_NAME[name], programs, options) for name in names]
    print_table(("case", "old, ms a step", "new", "new / old", "weights"), [row for row in rows if row])
    sys.exit(1 if None in rows else 0)


if __name__ == "__main__":
    main()
