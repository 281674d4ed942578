#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Readers of the output that leave, stop or never were: training ends as if they had stayed.

readers.py PROGRAM Readers|ReadersOfRanks
"""
import contextlib
import json
import os
import pathlib
import pty
import subprocess

from program_test import TIMEOUT_S, ProgramTest, clean_environment, main

STEPS = 2000  # with a line each, more than a pipe holds


@contextlib.contextmanager
def leaves():
    """`| head -3`: reads some lines, and is gone."""
    reader, writer = os.pipe()

    def read_some():
        os.close(writer)
        with os.fdopen(reader) as stream:
            for _ in range(3):
                stream.readline()
    yield writer, read_some


@contextlib.contextmanager
def never_reads():
    """`| less`, whose user looks at the first page."""
    reader, writer = os.pipe()
    yield writer, lambda: os.close(writer)
    os.close(reader)


@contextlib.contextmanager
def full():
    with open("/dev/full", "wb") as output:
        yield output, lambda: None


@contextlib.contextmanager
def closed():
    yield None, lambda: None


@contextlib.contextmanager
def terminal_closes():
    """A window that is closed under `setsid` or `nohup`: no signal, but nobody to write to."""
    leader, follower = pty.openpty()

    def close():
        os.close(follower)
        os.read(leader, 64)
        os.close(leader)
    yield follower, close


READERS = (leaves, never_reads, full, closed, terminal_closes)
LOST = {"leaves", "full", "terminal_closes"}  # where the run is to say so


class ReadersTest(ProgramTest):
    def flags(self, out, *more):
        return [f"--data=csv:{self.table}", "--model=mlp", "--global-batch=16", "--micro-batch=4",
                "--lr=0.01", "--momentum=0.9", f"--steps={STEPS}", "--eval-every=0",
                "--log-every=1", "--checkpoint-every=500", f"--out={self.folder / out}", *more]

    def summary(self, out):
        return json.loads((self.folder / out / "summary.json").read_text())

    def undisturbed(self):
        if not hasattr(self, "expected"):
            result = self.run_command([self.program, "train", "--ranks=1", *self.flags("alone")])
            self.assertEqual(result.returncode, 0, result.stderr)
            self.expected = self.summary("alone")["weights_sha256"]
        return self.expected

    def ends_well(self, command, reader, both):
        """Its exit code, and what it wrote to standard error where that is read."""
        errors = self.folder / "errors"
        with reader() as (output, then), open(errors, "wb") as error_file:
            words = [str(word) for word in command]
            if output is None:
                words = ["sh", "-c", f'exec "$@" >&- {"2>&-" if both else ""}', "sh", *words]
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, cwd=self.folder,
                stderr=subprocess.STDOUT if both and output is not None else error_file,
                env={**clean_environment(), "TERM": "xterm"}, start_new_session=True)
            then()
            code = process.wait(TIMEOUT_S)
        self.assertEqual(code, 0, errors.read_text())
        return errors.read_text()

    def check(self, command, ranks):
        for reader in READERS:
            for both in (False, True):
                name = reader.__name__
                with self.subTest(command=command, ranks=ranks, reader=name, both=both):
                    out = f"{command}_{ranks}_{name}_{both}"
                    said = self.ends_well([self.program, command, f"--ranks={ranks}",
                                           *self.flags(out)], reader, both)
                    self.assertEqual(self.summary(out)["weights_sha256"], self.undisturbed())
                    folder = self.folder / out
                    self.assertTrue((folder / f"checkpoints/step_{STEPS:08}").is_dir())
                    log = self.log_of(out)
                    self.assertIn(f"step {STEPS}/{STEPS}", log)
                    if name in LOST:
                        self.assertIn("standard output is lost", log)
                    if name in LOST and ranks > 1 and not both:
                        self.assertIn("standard output is lost", said)


class Readers(ReadersTest):
    def test_of_train(self):
        self.check("train", 1)

    def test_of_run(self):
        self.check("run", 1)


class ReadersOfRanks(ReadersTest):
    def test_of_train(self):
        self.check("train", 2)

    def test_of_run(self):
        self.check("run", 2)

    def test_of_a_run_without_a_name(self):
        """The launcher writes into a log whose folder it has named itself."""
        flags = [flag for flag in self.flags("") if not flag.startswith("--out")]
        self.ends_well([self.program, "train", "--ranks=2", *flags], leaves, False)
        (folder,) = pathlib.Path(self.folder, "runs").iterdir()
        self.assertEqual(self.summary(folder)["weights_sha256"], self.undisturbed())
        self.assertIn("standard output is lost", self.log_of(folder))

    def test_of_scale(self):
        for reader in READERS:
            out = self.folder / f"scale_{reader.__name__}"
            self.ends_well([self.program, "scale", f"--data=csv:{self.table}", "--model=mlp",
                            "--global-batch=16", "--micro-batch=4", "--ranks=1,2", "--mode=strong",
                            "--repeats=1", "--steps=12", f"--out={out}"], reader, False)
            self.assertEqual(len(json.loads((out / "scale.json").read_text())["points"]), 2)


if __name__ == "__main__":
    main()
