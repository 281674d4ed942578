# SPDX-License-Identifier: Apache-2.0
"""What the tests of the built program share. Python's standard library alone."""
import json
import os
import pathlib
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

TIMEOUT_S = 240 * int(os.environ.get("TIME_FACTOR", 1))  # of sanitizers
LAUNCHER_PREFIXES = ("OMPI_", "PMI", "MV2_", "SLURM_", "LOCKSTEP_", "RANK", "WORLD_SIZE",
                     "LOCAL_RANK")


def clean_environment():
    return {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHER_PREFIXES)}


def csv_text(rows=60, broken=None):
    """Three separable classes; `broken` maps a row number to the line that replaces it."""
    lines = ["a,b,label"]
    for i in range(rows):
        kind = i % 3
        lines.append(f"{kind + 0.01 * (i % 7)},{2 - kind + 0.01 * (i % 5)},k{kind}")
    for row, line in (broken or {}).items():
        lines[row] = line
    return "\n".join(lines) + "\n"


def idx(magic, dims, payload):
    return struct.pack(">I", magic) + b"".join(struct.pack(">I", d) for d in dims) + payload


class ProgramTest(unittest.TestCase):
    """A test in a folder of its own, of the program that main() was given."""
    program = ""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.table = self.write("table.csv", csv_text())

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def has_address_sanitizer(self):
        """It wants to be loaded first, and keeps memory of its own in addition to every block."""
        return b"__asan_init" in pathlib.Path(self.program).read_bytes()

    def run_command(self, command, environment=None, **options):
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("timeout", TIMEOUT_S)
        result = subprocess.run([str(part) for part in command], cwd=self.folder, text=True,
                                stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                env={**clean_environment(), **(environment or {})}, **options)
        return result

    def train_arguments(self, *flags, data=None):
        given = [str(f) for f in flags]
        names = {f.split("=")[0] for f in given}
        defaults = {"--data": f"csv:{self.table}" if data is None else data, "--model": "mlp",
                    "--ranks": "1"}
        result = [self.program, "train"]
        for name, value in defaults.items():
            if name not in names:
                result += [name, value]
        if not names & {"--steps", "--epochs", "--samples", "--config"}:
            result += ["--steps", "3"]
        if not names & {"--global-batch", "--config"}:
            result += ["--global-batch", "16", "--micro-batch", "8"]
        return result + given

    def by_rank(self, *groups):
        """Of pairs (ranks, command): what follows mpirun's options for the first ranks to start the first command, and so on.

        A shell chooses, since mpirun of Open MPI 5.0.7 ends with signal 11 at several commands between colons.
        """
        lines, ranks = ["#!/bin/sh"], 0
        for count, command in groups:
            ranks += count
            lines.append(f"[ \"$OMPI_COMM_WORLD_RANK\" -ge {ranks} ] || exec {shlex.join(str(part) for part in command)}")
        return ["-np", str(ranks), "sh", self.write("by_rank.sh", "\n".join(lines) + "\nexit 1\n")]

    def log_of(self, out):
        """What rank 0 wrote into its log, which has the end of a short run whole."""
        return (self.folder / out / "logs/rank_0.log").read_text()

    def train(self, *flags, data=None, environment=None, **options):
        return self.run_command(self.train_arguments(*flags, data=data), environment, **options)

    def planned(self, *flags):
        """What `lockstep plan` says."""
        result = self.run_command([self.program, "plan", "--json", *flags])
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def expect_error(self, result, code, *texts):
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn("error: ", result.stderr)
        for text in texts:
            self.assertIn(text, result.stderr)
        self.assertEqual(result.stderr.count("error: "), 1, "said more than once:\n" +
                         result.stderr)

    def mnist(self, **replaced):
        """A folder of 16 tiny-but-valid images and labels, in which files may be replaced."""
        pixels = bytes(16 * 28 * 28)
        files = {"train-images-idx3-ubyte": idx(0x803, [16, 28, 28], pixels),
                 "train-labels-idx1-ubyte": idx(0x801, [16], bytes(i % 10 for i in range(16))),
                 "t10k-images-idx3-ubyte": idx(0x803, [16, 28, 28], pixels),
                 "t10k-labels-idx1-ubyte": idx(0x801, [16], bytes(i % 10 for i in range(16)))}
        files.update({name.replace("_", "-"): content for name, content in replaced.items()})
        for name, content in files.items():
            self.write(f"mnist/{name}", content)
        return f"mnist:{self.folder}/mnist"


def main():
    """PROGRAM ClassName: runs one class of the calling file's tests."""
    ProgramTest.program = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
