#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a GoogleTest program once, and its tests to the end even where one hangs or crashes.

  run_tests.py [--filter F] [--test-seconds N] [--start-seconds N] [--libraries PATH] [--under COMMAND] PROGRAM

On a GPU a start costs seconds, as all kernels are loaded, so that all tests share one process. A
test that takes longer than --test-seconds is ended, a test in which the process dies is named, and
a new process runs the tests behind it; so it does behind a failure after which the GPU's context is
of no more use. --start-seconds limits the time to the first test. PATH is the
program's LD_LIBRARY_PATH, which Python keeps without. COMMAND stands before the
program, as `compute-sanitizer --tool memcheck --error-exitcode 99`. Prints what the program prints
and, last, a line "result: ...". Exit code 1 where any test failed, was skipped or was not reached.
Asked to end (SIGTERM), it ends the program and says how far it came.
"""
import argparse
import os
import queue
import re
import shlex
import signal
import subprocess
import sys
import threading
import time

BEGIN = re.compile(r"^\[ RUN      \] (\S+)")
END = re.compile(r"^\[ *(OK|FAILED|SKIPPED) *\] (\S+?),? ")
# Of CUDA's errors, those that stay with a process.
BROKEN = re.compile(r"cudaError(IllegalAddress|LaunchFailure|MisalignedAddress|Assert|HardwareStackError|"
                    r"IllegalInstruction|LaunchTimeout|ECCUncorrectable)|an illegal memory access|"
                    r"unspecified launch failure|misaligned address|device-side assert|uncorrectable ECC")
SKIP_CODE = 77
NAMED = 12  # so many names in the result


class Asked(Exception):
    """Somebody asks to end."""


def asked(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # timeout(1) sends it twice, the second time to the group
    raise Asked


def end(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def environment(options):
    return {**os.environ, **({"LD_LIBRARY_PATH": options.libraries} if options.libraries else {})}


def start(command, options):
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            errors="replace", start_new_session=True, env=environment(options))


def lines_of(process):
    """A queue of its lines, None last."""
    lines = queue.Queue()

    def read():
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    return lines


def names_of(options):
    listed = subprocess.run([options.program, "--gtest_list_tests", f"--gtest_filter={options.filter}"],
                            capture_output=True, text=True, timeout=120, check=False, env=environment(options))
    if listed.returncode != 0:
        sys.exit(f"run_tests: {options.program} lists no tests (exit code {listed.returncode}):\n"
                 f"{listed.stdout[-1000:]}{listed.stderr[-1000:]}")
    names, suite = [], ""
    for line in listed.stdout.splitlines():
        name = line.split("#")[0].strip()
        if line.startswith(" "):
            names.append(suite + name)
        elif name.endswith("."):
            suite = name
    return [name for name in names if "DISABLED_" not in name]


class Run:
    """What became of the tests so far, by name."""

    def __init__(self, options, names):
        self.options, self.names = options, names
        self.outcomes = {}  # name: passed, failed, skipped, hung, crashed
        self.faults = []    # of whole processes, in words
        self.process = None

    def left(self):
        return [name for name in self.names if name not in self.outcomes]

    def once(self):
        """One process with all tests that are left; returns whether it is worth another one."""
        before, left = len(self.outcomes), self.left()
        command = [*shlex.split(self.options.under), self.options.program,
                   "--gtest_filter=" + (":".join(left) if before else self.options.filter)]
        self.process = start(command, self.options)
        code, test, broken = self.follow(lines_of(self.process))
        if test is not None and code is not None:
            self.outcomes[test] = f"crashed ({describe(code)})"
        elif code == SKIP_CODE and len(self.outcomes) == before:
            self.outcomes.update({name: "skipped" for name in left})
        elif code not in (0, 1, None) and not broken:
            self.faults.append(f"{describe(code)} behind the last test"
                               if len(self.outcomes) > before else f"{describe(code)} before the first test")
        return len(self.outcomes) > before

    def follow(self, lines):
        """(exit code, or None where it was ended; the test that was running; whether the context broke)"""
        test, broken, until = None, False, time.monotonic() + self.options.start_seconds
        while True:
            try:
                line = lines.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                end(self.process)
                if test is not None:
                    self.outcomes[test] = f"hung (no end after {self.options.test_seconds} s)"
                else:
                    self.faults.append(f"no test began or ended within {self.options.start_seconds} s")
                return None, test, broken
            if line is None:
                return self.process.wait(), test, broken
            print(line, end="", flush=True)
            if match := BEGIN.match(line):
                test, until = match[1], time.monotonic() + self.options.test_seconds
            elif test is not None and (match := END.match(line)) and match[2] == test:
                self.outcomes[test] = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}[match[1]]
                test, until = None, time.monotonic() + self.options.start_seconds
                if broken:
                    end(self.process)
                    return None, None, True
            elif test is not None and BROKEN.search(line):
                broken = True

    def result(self, note=""):
        words = [f"{sum(o == 'passed' for o in self.outcomes.values())} of {len(self.names)} tests passed"]
        kinds = {}
        for name, outcome in self.outcomes.items():
            if outcome != "passed":
                kinds.setdefault(outcome, []).append(name)
        if self.left():
            kinds["not reached"] = self.left()
        for kind, names in kinds.items():
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            words.append(f"{kind}: {', '.join(names[:NAMED])}{more}")
        return "; ".join([*words, *self.faults, *([note] if note else [])])


def describe(code):
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="*")
    parser.add_argument("--test-seconds", type=float, default=120)
    parser.add_argument("--start-seconds", type=float, default=120)
    parser.add_argument("--libraries", default="")
    parser.add_argument("--under", default="")
    parser.add_argument("program")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, asked)
    names = names_of(options)
    if not names:
        sys.exit(f"run_tests: no test of {options.program} has a name as {options.filter}")
    run, note = Run(options, names), ""
    try:
        while run.left() and run.once():
            pass
    except Asked:
        note = "ended from outside"
        end(run.process)
    print(f"result: {run.result(note)}", flush=True)
    good = not note and not run.faults and all(o == "passed" for o in run.outcomes.values()) and not run.left()
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
