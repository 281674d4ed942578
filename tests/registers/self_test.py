#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kernel_registers.py on the library of unlaunchable.cu: self_test.py LIBRARY."""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import kernel_registers


def run(*arguments):
    script = pathlib.Path(__file__).with_name("kernel_registers.py")
    done = subprocess.run([sys.executable, "-B", script, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


code, text = run(sys.argv[1], "--list")
lines = text.splitlines()
refused = [line for line in lines if "no launch bounds" in line]
assert code == 1, text
assert refused and all("unbounded_kernel" in line for line in refused), text
assert any("14bounded_kernel" in line for line in lines if "threads=256" in line), text
assert any("small_kernel" in line for line in lines if "threads=-" in line), text

# Registers are dealt in units: 64 times 1,024 fit, 65 do not; more threads than a block has are never had.
assert kernel_registers.problem(64, None, 0) is None
assert "no launch bounds" in kernel_registers.problem(65, None, 0)
assert kernel_registers.problem(128, 512, 0) is None
assert "launch bounds of 512 threads take" in kernel_registers.problem(129, 512, 0)
assert "the most of a block" in kernel_registers.problem(8, 2048, 0)
assert "static shared memory" in kernel_registers.problem(8, 32, 49153)

with tempfile.NamedTemporaryFile() as empty:
    code, text = run(empty.name)
    assert code == 2 and "no kernels" in text, text
