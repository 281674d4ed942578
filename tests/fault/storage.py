#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets storage fail, call by call, under training, resuming, packing, reporting, predicting and
exporting.

storage.py PROGRAM SHIM [--quick] [--cases "NAME;NAME"] [--calls open,read] [--every K] [--jobs J]
           [--log FILE]

For each command line: its calls on files of the data and of the run are counted, then each is made
to fail in each way that fits it (WAYS). The command has to end

- as if nothing had happened (same), or
- with the same results and a word that something was lost (warned), or
- with exit code 1, 3 or 4, one error with a hint that names the file, and no partial file under
  the name of a result (error), or killed, where that was the fault (killed).

Where it did not end as if nothing had happened, the same command, without faults and with --resume
auto for training, has to come to the undisturbed end. Prints a table; exits 1 where something else
happened. --quick takes a minute: EIO of the first call on each file, and some others.
"""
import argparse
import collections
import concurrent.futures
import errno
import itertools
import pathlib
import re
import shutil
import sys
import time

import storage_cases
from storage_cases import Stage

# How each call can fail: name of the way: (FAIL_HOW, error).
ERROR = {"EIO": ("error", errno.EIO)}
FULL = {"ENOSPC": ("error", errno.ENOSPC)}
INTERRUPTED = {"EINTR": ("error", errno.EINTR)}
SHORT = {"short": ("short", 0)}
KILLED = {"killed": ("kill", 0)}
WAYS = {
    "open": ERROR | FULL | INTERRUPTED | KILLED,
    "read": ERROR | INTERRUPTED | SHORT,
    "write": ERROR | FULL | INTERRUPTED | SHORT | {"torn": ("torn", errno.EIO)} | KILLED,
    "fsync": ERROR | FULL | INTERRUPTED | KILLED,
    "close": ERROR | INTERRUPTED,
    "rename": ERROR | FULL | KILLED,
    "link": ERROR | FULL | KILLED,
    "mkdir": ERROR | FULL | KILLED,
    "unlink": ERROR | KILLED,
    "truncate": ERROR | FULL | INTERRUPTED,
    "stat": ERROR,
    "dir": ERROR,
    "mmap": ERROR,
}
CODES = {1: (1, 3, 4), 2: (1, 3, 4, 5, 137)}
SAID = re.compile(r"warning: (?!injects the)|could not write |was not written|not removed|"
                  r"skipped +step_|^note ", re.MULTILINE)
MOST = 150  # numbers of one call in one way; with more of them every k-th
MOST_OF_RANKS = 4
# How many faults of these --quick plays, out of all.
QUICK_SHARE = {"train packed": 12, "train tokens": 12, "train --force": 12, "pack --force": 12,
               "export .pth --force": 12, "train, rank 0 of 2": 4, "train, rank 1 of 2": 2,
               "train --resume auto, rank 0 of 2": 3}


class Play:
    """One fault in one command line, and what came of it."""

    def __init__(self, case, call, way, number):
        self.case, self.call, self.way, self.number = case, call, way, number
        self.outcome, self.wrong, self.text = "", [], ""

    def variables(self, folder):
        result = {"FAIL_CALLS": self.call, "FAIL_LOG": f"{folder}.calls"}
        if self.way == "slow":
            return {**result, "FAIL_AT": "0", "SLOW_MS": "50"}
        how, code = WAYS[self.call][self.way]
        return {**result, "FAIL_AT": str(self.number), "FAIL_HOW": how,
                "FAIL_ERRNO": str(code or errno.EIO)}

    def title(self):
        return f"{self.case.name}: {self.call} {self.number}, {self.way}"


class Runs:
    def __init__(self, stage):
        self.stage, self.names, self.known = stage, itertools.count(), {}

    def disturbed(self, case, folder, variables):
        """Runs it with the shim."""
        own = {"LD_PRELOAD": self.stage.shim, "FAIL_PROGRAM": self.stage.program,
               "FAIL_WITHIN": str(self.stage.folder), **variables}
        if case.ranks > 1:
            own["FAIL_RANK"] = str(case.rank)
        return self.stage.start(case.arguments, folder, own)

    def place(self, case):
        folder = self.stage.folder / f"play_{next(self.names)}"
        case.begin(self.stage, folder)
        return folder

    def count(self, case):
        """{call: names of the files, in order}, undisturbed; what the command leaves is kept."""
        folder = self.place(case)
        code, out, err = self.disturbed(case, folder, {
            "FAIL_CALLS": ",".join(WAYS), "FAIL_AT": "0", "FAIL_LOG": f"{folder}.calls"})
        if code != 0:
            raise SystemExit(f"{case.name}: the undisturbed command failed:\n{out}{err}")
        self.known[case.name] = folder, out
        names = collections.defaultdict(list)
        for line in pathlib.Path(f"{folder}.calls").read_text().splitlines():
            _, call, path = line.split(" ", 2)
            names[call].append(re.sub(r"[0-9]+", "#", path.removeprefix(str(folder))))
        return names

    def play(self, play):
        folder = self.place(play.case)
        log = pathlib.Path(f"{folder}.calls")
        try:
            code, out, err = self.disturbed(play.case, folder, play.variables(folder))
            failed = [line.split()[2] for line in (log.read_text().splitlines()
                                                   if log.exists() else [])
                      if line.endswith(" fails")]
            play.text = f"{failed}\n{out}{err}"
            self.judge(play, folder, (code, out, err), failed)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            log.unlink(missing_ok=True)
        return play

    def judge(self, play, folder, end, failed):
        case, (code, out, err) = play.case, end
        known, known_out = self.known[case.name]
        before = self.stage.folder / case.begins if case.begins else None
        lost = case.lost(folder, known)
        if not (code == 0 and SAID.search(out + err)):
            play.wrong += case.partial(folder, known, before)
        if isinstance(case, storage_cases.PredictCase) and code == 0 and out != known_out:
            lost.append("standard output is another")
        if not failed and play.way != "slow":
            play.outcome = "not reached"
        if code is None:
            play.outcome = "hang"
            play.wrong.append("a hang")
        elif code == 0:
            self.judge_done(play, folder, lost, out + err)
        elif play.way == "killed" and code in ((-9,) if case.ranks == 1 else (5, 137)):
            play.outcome = "killed"
        else:
            self.judge_error(play, folder, code, err, failed)
        if play.outcome not in ("same", "not reached", "hang"):
            self.repeat(play, folder, known, known_out)

    def judge_done(self, play, folder, lost, said):
        lost += [f"{name} is left over" for name in play.case.leftovers(folder)]
        warned = SAID.search(said)
        play.outcome = play.outcome or ("warned" if lost or warned else "same")
        if lost and not warned:
            play.wrong += [f"exit code 0 without a word: {what}" for what in lost]
        play.wrong += [what for what in lost if "weights" in what]

    def judge_error(self, play, folder, code, err, failed):
        play.outcome = f"error {code}"
        errors = re.findall(r"error: (.*)", err)
        if code < 0:
            play.wrong.append(f"ended by signal {-code}")
        elif code not in CODES[play.case.ranks]:
            play.wrong.append(f"exit code {code}")
        elif not errors or (play.case.ranks == 1 and len(errors) != 1):
            play.wrong.append(f"exit code {code} with {len(errors)} errors")
        elif "hint: " not in err:
            play.wrong.append("an error without a hint")
        # A temporary file may be called by the name that it is to have, the folder here ".".
        names = [name for path in map(pathlib.Path, failed)
                 for name in (path.name, path.name.split(".")[0], path.parent.name) if name]
        here = any(path.rstrip("/.").endswith(folder.name) for path in failed)
        if failed and not here and not any(name in err for name in names):
            play.wrong.append(f"the error does not name {', '.join(failed)}")

    def repeat(self, play, folder, known, known_out):
        """The same without the shim."""
        case = play.case
        code, out, err = self.stage.start(case.again(folder), folder, {})
        wrong = case.lost_again(folder, known, play.outcome)
        if code == 0 and isinstance(case, storage_cases.PredictCase) and out != known_out:
            wrong.append("other output")
        if code != 0 or wrong:
            play.wrong.append(f"again without faults: exit code {code}: {'; '.join(wrong)}")
            play.text += f"--- again:\n{out}{err}"


def plays_of(case, counts, arguments):
    for call, ways in WAYS.items():
        count = len(counts[call])
        if count == 0 or (arguments.calls and call not in arguments.calls):
            continue
        every = max(arguments.every, -(-count // (MOST if case.ranks == 1 else MOST_OF_RANKS)))
        for way in ways:
            for number in range(1, count + 1, every):
                yield Play(case, call, way, number)
        yield Play(case, call, "slow", 0)


def quick_plays_of(case, counts):
    """The first call on each file fails with EIO; of the commands in QUICK_SHARE, a few."""
    everything = list(plays_of(case, counts, argparse.Namespace(calls=None, every=1)))
    if case.name in QUICK_SHARE:
        return everything[::len(everything) // QUICK_SHARE[case.name]]
    firsts = {(call, names.index(name) + 1) for call, names in counts.items() for name in names}
    return [p for p in everything if p.way == "EIO" and (p.call, p.number) in firsts]


def cell(plays, outcome):
    return sum(play.outcome.startswith(outcome) for play in plays)


def print_table(counts, plays):
    row = "| {:28} | {:8} | {:>5} | {:>5} | {:>5} | {:>6} | {:>5} | {:>6} | {:>9} | {:>3} |"
    print(row.format("command line", "call", "calls", "plays", "same", "warned", "error", "killed",
                     "not there", "BUG"))
    print("|---|---|" + "---:|" * 8)
    for name in counts:
        for call in WAYS:
            own = [p for p in plays if p.case.name == name and p.call == call]
            if own:
                print(row.format(name, call, len(counts[name][call]), len(own), cell(own, "same"),
                                 cell(own, "warned"), cell(own, "error"), cell(own, "killed"),
                                 cell(own, "not reached"), sum(bool(p.wrong) for p in own)))
    absent = [call for call in WAYS if not any(names[call] for names in counts.values())]
    print(f"no such call on these files: {', '.join(absent) or '-'}")


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("program")
    parser.add_argument("shim")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cases", default="", help="names as the table has them; all")
    parser.add_argument("--calls", type=lambda text: text.split(","))
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--log")
    return parser.parse_args()


def main():
    arguments, began = parsed(), time.monotonic()
    log = open(arguments.log, "a", encoding="utf-8") if arguments.log else sys.stdout
    stage = Stage(arguments.program, arguments.shim)
    try:
        runs, plays, counts = Runs(stage), [], {}
        found = storage_cases.cases(stage)
        for name in arguments.cases.split(";") if arguments.cases else found:
            counts[name] = runs.count(found[name])
            plays += (quick_plays_of(found[name], counts[name]) if arguments.quick else
                      plays_of(found[name], counts[name], arguments))
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for play in pool.map(runs.play, plays):
                for wrong in play.wrong:
                    print(f"BUG {play.title()}: {play.outcome}: {wrong}", file=log, flush=True)
                if play.wrong:
                    text = play.text.strip().replace("\n", "\n   | ")
                    print(f"   | {text}", file=log, flush=True)
        print_table(counts, plays)
        wrong = sum(bool(play.wrong) for play in plays)
        print(f"{len(plays)} faults in {time.monotonic() - began:.0f} s, {wrong} BUG")
    finally:
        shutil.rmtree(stage.folder, ignore_errors=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
