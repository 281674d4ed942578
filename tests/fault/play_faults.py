#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plays the twenty faults on the built program and prints what came of each.

play_faults.py PROGRAM SHIM [--ranks 2,4] [--seeds N] [--seed S] [--faults 1,2,5] [--quick]
               [--log FILE]

Each variant of each fault is played with each number of ranks and N seeds, which draw rank, step,
moment and place. --quick plays the first variant of each once, in turn on the numbers of ranks
given (those that need a majority on the largest), and no second one but where a fault has two
faces (the survivable one). A run has to end in the bound of its fault, name the faulting rank, give its
exit code, leave no process and a checkpoint that is whole. Exits 1 where any does not.
"""
import argparse
import random
import shutil
import sys
import time

import rows_of_files
import rows_of_ranks
import rows_of_values
from played_run import Theatre

ROWS = sorted(rows_of_ranks.ROWS + rows_of_files.ROWS + rows_of_values.ROWS, key=lambda r: r[0])
MOST_RANKS = {6, 8, 12}  # among two ranks a faulting rank cannot be told, or only by half
QUICK_VARIANTS = {2: 2, 8: 2, 10: 2, 13: 2, 18: 2}  # of the others one


def variants_of(row, arguments):
    number, _, variants = row
    if not arguments.quick:
        return [(v, ranks) for v in variants for ranks in arguments.ranks]
    chosen = variants[:QUICK_VARIANTS.get(number, 1)]
    return [(v, max(arguments.ranks) if number in MOST_RANKS else
             arguments.ranks[(number + i) % len(arguments.ranks)]) for i, v in enumerate(chosen)]


def verdict_text(verdict):
    if verdict.not_played:
        return f"not played, {verdict.not_played}"
    return "RED" if verdict.wrong else "good"


def play_once(theatre, variant, ranks, title, key, log):
    began = time.monotonic()
    verdict = variant(theatre, ranks, random.Random(key))
    print(f"{title}: {verdict_text(verdict)}, {time.monotonic() - began:.1f} s",
          file=log, flush=True)
    for wrong in verdict.wrong:
        print(f"   {wrong}", file=log, flush=True)
    if verdict.wrong:
        print("   | " + verdict.text.replace("\n", "\n   | "), file=log, flush=True)
    for folder in theatre.folder.glob("case_*"):
        shutil.rmtree(folder, ignore_errors=True)
    return verdict


def play_row(theatre, row, arguments, log):
    number, name, _ = row
    verdicts = []
    for (variant_name, variant), ranks in variants_of(row, arguments):
        for seed in range(arguments.seed, arguments.seed + arguments.seeds):
            title = f"{number:2} {name}: {variant_name}, {ranks} ranks, seed {seed}"
            key = f"{number} {variant_name} {ranks} {seed}"
            verdicts.append(play_once(theatre, variant, ranks, title, key, log))
    return verdicts


def share(values):
    known = [v for v in values if v is not None]
    return f"{sum(known)}/{len(known)}" if known else "-"


def table_line(row, verdicts):
    number, name, _ = row
    missing = sum(bool(v.not_played) for v in verdicts)
    verdicts = [v for v in verdicts if not v.not_played]
    times = [v.seconds for v in verdicts if v.seconds is not None]
    slowest = f"{max(times):.2f} s" if times else "-"
    # A run that did not end has none.
    codes = ",".join("none" if code is None else str(code)
                     for code in sorted({v.code for v in verdicts},
                                        key=lambda code: (code is None, code or 0)))
    good = sum(not v.wrong for v in verdicts)
    return (f"| {number:2} | {name:20} | {len(verdicts):5} | {slowest:>8} "
            f"| {share([v.culprit for v in verdicts]):>7} | {codes:>9} "
            f"| {sum(v.left for v in verdicts):4} | {share([v.checkpoint for v in verdicts]):>10} "
            f"| {good}/{len(verdicts)}{'' if good == len(verdicts) else ' RED'}"
            f"{f', {missing} not played' if missing else ''} |")


HEAD = ("|  # | fault                | plays | slowest  | culprit | exit code | left | checkpoint "
        "| good |\n"
        "|---:|----------------------|------:|---------:|--------:|----------:|-----:|-----------:"
        "|------|")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program")
    parser.add_argument("shim")
    parser.add_argument("--ranks", default="2,4", help="numbers of ranks, separated by commas")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--faults", default=",".join(str(r[0]) for r in ROWS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--log", help="a file for what was played; default: standard output")
    arguments = parser.parse_args()
    arguments.ranks = [int(r) for r in arguments.ranks.split(",")]
    wanted = {int(f) for f in arguments.faults.split(",")}
    log = open(arguments.log, "a", encoding="utf-8") if arguments.log else sys.stdout
    theatre = Theatre(arguments.program, arguments.shim)
    began, lines, wrong = time.monotonic(), [], 0
    try:
        for row in ROWS:
            if row[0] in wanted:
                verdicts = play_row(theatre, row, arguments, log)
                wrong += sum(bool(v.wrong) for v in verdicts)
                lines.append(table_line(row, verdicts))
    finally:
        theatre.close()
        print("\n".join([HEAD, *lines]), flush=True)
    print(f"{time.monotonic() - began:.0f} s, {wrong} red")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
