#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every compiled CUDA kernel can be launched: registers times threads fit a multiprocessor.

    python3 tests/registers/kernel_registers.py FILE... [--list]

FILE is an object, archive or program with kernels in it. A kernel may be launched with as many threads a block as
its __launch_bounds__ say, or with 1,024 where it has none. A multiprocessor has 65,536 registers, dealt to warps in
units of 256, and 48 KiB of shared memory that a kernel may have without asking. Prints one line for each kernel and
architecture that cannot be launched; exit code 1 where there is one, 2 where a file holds no kernel at all.
"""
import argparse
import pathlib
import sys

from cubin import cubins

REGISTERS = 65536      # of a multiprocessor, of all kinds of GPU that Lockstep runs on
MOST_THREADS = 1024    # of a block
SHARED_BYTES = 48 << 10
WARP = 32
UNIT = 256             # registers are dealt to a warp in units of so many


def problem(registers, threads, shared):
    """Why such a kernel cannot be launched; None where it can."""
    most = threads or MOST_THREADS
    warps = -(-most // WARP)
    used = warps * -(-registers * WARP // UNIT) * UNIT
    if most > MOST_THREADS:
        return f"launch bounds of {most} threads, and {MOST_THREADS} is the most of a block"
    if used > REGISTERS:
        kind = "launch bounds of" if threads else "no launch bounds, so up to"
        return f"{registers} registers and {kind} {most} threads take {used} of {REGISTERS} registers"
    if shared > SHARED_BYTES:
        return f"{shared} bytes of static shared memory, and {SHARED_BYTES} may be had"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--list", action="store_true", help="print every kernel")
    options = parser.parse_args()
    code = count = 0
    for file in options.files:
        found = {}
        for cubin in cubins(file.read_bytes()):
            for kernel in cubin.kernels():
                found[(kernel[0], cubin.architecture)] = kernel[1:]
        if not found:
            print(f"{file}: no kernels are found in it", file=sys.stderr)
            return 2
        count += len(found)
        for (name, architecture), (registers, threads, shared) in sorted(found.items()):
            why = problem(registers, threads, shared)
            if why:
                print(f"{file}: {name} for sm_{architecture}: {why}")
                code = 1
            elif options.list:
                print(f"{name} sm_{architecture} registers={registers} threads={threads or '-'} shared={shared}")
    if code == 0:
        print(f"{count} kernels can be launched")
    return code


if __name__ == "__main__":
    sys.exit(main())
