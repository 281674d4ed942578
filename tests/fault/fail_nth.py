#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets the n-th allocation and the n-th input or output call of a short run fail, for every n.

fail_nth.py PROGRAM SHIM [--what malloc,io] [--most N] [--seed S] [--first N --last N] [--jobs J]
            [--log FILE]

A run of one rank: six steps, a validation, three checkpoints. Each time the program has to end
either as if nothing had happened, with the same weights, or with a documented exit code (1, 3 or
4) and one error with a hint; never by a signal, never without an end; and its newest checkpoint
has to be whole. --most N plays N of the numbers, drawn by the seed, instead of all. Exits 1 where
something else happens, and prints who had called.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

from played_run import LAUNCHER_PREFIXES, ROWS

FLAGS = ["--model=mlp", "--hidden=16", "--global-batch=16", "--micro-batch=8", "--steps=6",
         "--lr=0.05", "--momentum=0.9", "--checkpoint-every=2", "--eval-every=3", "--log-every=1",
         "--workers=1", "--ranks=1", "--out=run"]
GROUPS = {"malloc": "malloc", "io": "io"}
CODES = (1, 3, 4)
LIMIT_S = 60


class Runs:
    def __init__(self, program, shim):
        self.program, self.shim = os.path.abspath(program), os.path.abspath(shim)
        if not os.path.exists(self.shim):
            raise SystemExit(f"{shim}: not built")  # the loader would only warn
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-nth-"))
        (self.folder / "table.csv").write_text("".join(ROWS.splitlines(True)[:61]))
        self.environment = {k: v for k, v in os.environ.items()
                            if not k.startswith(LAUNCHER_PREFIXES)}

    def run(self, name, variables):
        """(exit code, or None where it did not end; standard output; standard error; folder)"""
        folder = self.folder / name
        folder.mkdir()
        command = [self.program, "train", *FLAGS, f"--data=csv:{self.folder}/table.csv"]
        environment = {**self.environment, "OMP_NUM_THREADS": "1", "LD_PRELOAD": self.shim,
                       "FAIL_PROGRAM": self.program, **variables}
        process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            return None, out.decode(), err.decode(errors="replace"), folder
        return process.returncode, out.decode(), err.decode(errors="replace"), folder

    def weights(self, folder):
        path = folder / "run/summary.json"
        try:
            return json.loads(path.read_text())["weights_sha256"]
        except (OSError, ValueError):
            return None

    def newest_is_whole(self, folder):
        """Empty, or what is wrong with the newest checkpoint."""
        names = sorted((folder / "run/checkpoints").glob("step_????????"))
        if not names:
            return ""
        result = subprocess.run([self.program, "export", f"--from={names[-1]}",
                                 f"--to={folder}/x.safetensors"], capture_output=True, text=True,
                                env=self.environment, timeout=LIMIT_S, check=False)
        return "" if result.returncode == 0 else f"{names[-1].name}: {result.stderr}"


# Registers kernels before main() and does not survive a failing allocation there.
CUDA_START = "libcudart"
# Ends the process by itself, with exit code 1.
OPENMP_END = "libgomp: Out of memory"


def judge(runs, code, err, folder, known):
    """What is wrong; empty: nothing."""
    if code is None:
        return "a hang"
    if code < 0:
        return f"ended by signal {-code}"
    errors = len(re.findall(r"\berror: ", err))
    if code == 0:
        weights = runs.weights(folder)
        if weights is None:
            return "exit code 0 without weights_sha256 in summary.json"
        if weights != known:
            return "other weights"
        if errors:
            return "an error was said, but the exit code is 0"
    elif code not in CODES:
        return f"exit code {code}"
    elif errors != 1:
        return f"exit code {code} with {errors} errors"
    elif "hint: " not in err:
        return f"exit code {code} without a hint"
    return runs.newest_is_whole(folder)


def callers(runs, what, n):
    """The innermost callers of the call that failed, as far as symbols tell."""
    *_, err, folder = runs.run(f"trace_{what}_{n}", {
        "FAIL_CALLS": GROUPS[what], "FAIL_AT": str(n), "FAIL_TRACE": "1"})
    shutil.rmtree(folder, ignore_errors=True)
    names = []
    for line in err.splitlines():
        if not (match := re.match(r"(\S+)\((\S*)\+(0x[0-9a-f]+)\)", line)):
            continue
        file, name, offset = match.groups()
        if "failing_calls" in file or "libfail" in file:
            continue
        if not name and file == runs.program:
            found = subprocess.run(["addr2line", "-f", "-C", "-e", file, offset], text=True,
                                   capture_output=True, check=False).stdout.splitlines()
            name = re.sub(r"\(.*", "", found[0]) if found else ""
        names.append(f"{os.path.basename(file)}:{name or offset}")
    return " < ".join(names[:7])


def play(runs, what, n, known):
    code, _, err, folder = runs.run(f"{what}_{n}", {"FAIL_CALLS": GROUPS[what],
                                                    "FAIL_AT": str(n)})
    wrong = judge(runs, code, err, folder, known)
    shutil.rmtree(folder, ignore_errors=True)
    return n, code, wrong, err


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program")
    parser.add_argument("shim")
    parser.add_argument("--what", default="malloc,io")
    parser.add_argument("--most", type=int, default=0, help="0: every number")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--last", type=int, default=0, help="0: the last call there is")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--log")
    arguments = parser.parse_args()
    log = open(arguments.log, "a", encoding="utf-8") if arguments.log else sys.stdout
    runs, red = Runs(arguments.program, arguments.shim), 0
    try:
        for what in arguments.what.split(","):
            counter = runs.folder / f"count_{what}"
            code, _, err, folder = runs.run(f"whole_{what}", {
                "FAIL_CALLS": GROUPS[what], "FAIL_COUNT": str(counter)})
            if code != 0:
                raise SystemExit(f"the undisturbed run failed: {err}")
            known, calls = runs.weights(folder), int(counter.read_text())
            numbers = list(range(arguments.first, (arguments.last or calls) + 1))
            if 0 < arguments.most < len(numbers):
                numbers = sorted(random.Random(arguments.seed).sample(numbers, arguments.most))
            began, codes, wrongs = time.monotonic(), collections.Counter(), []
            with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
                for n, code, wrong, err in pool.map(
                        lambda n: play(runs, what, n, known), numbers):
                    codes[code] += 1
                    if wrong:
                        wrongs.append((n, wrong, err))
            foreign = 0
            for n, wrong, err in wrongs:
                by = callers(runs, what, n)
                foreign += (CUDA_START in by and "lockstep::" not in by) or OPENMP_END in err
                print(f"{what} call {n}: {wrong}\n   by {by}\n   | "
                      + err.strip()[:600].replace("\n", "\n   | "), file=log, flush=True)
            red += len(wrongs) - foreign
            ends = ", ".join(f"{v} with {k}" for k, v in sorted(codes.items(), key=str))
            print(f"{what}: {calls} calls, {len(numbers)} made to fail in "
                  f"{time.monotonic() - began:.0f} s: {ends}; {len(wrongs) - foreign} red, "
                  f"{foreign} in the start of CUDA's runtime, before main(), or ended by libgomp",
                  flush=True)
    finally:
        shutil.rmtree(runs.folder, ignore_errors=True)
    sys.exit(1 if red else 0)


if __name__ == "__main__":
    main()
