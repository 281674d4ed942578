#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every compiled CUDA kernel waits for earlier work before it touches global memory.

    python3 tests/registers/kernel_waits.py FILE...

FILE is an object, archive or program with kernels in it. Looks at those for compute capability 9.0, which may be launched
before the kernel before them has ended (Note [Dependent launches]): griddepcontrol.wait must be executed by every thread,
in the straight code with which the kernel begins, and come before each access to global memory. Prints a line for each
kernel that is not so; exit code 1 where there is one, 2 where a file holds no kernel, 77 where none is for 9.0.
"""
import argparse
import pathlib
import sys

import sass
from cubin import cubins

ARCHITECTURE = 90
SKIPPED = 77
# Read off what ptxas makes of griddepcontrol.wait and .launch_dependents, and of accesses to global memory: STG, and
# ATOMG and REDG of integers, of floats and by comparison; LD, ST and ATOM of addresses that may be in it. ATOMS, which
# changes shared memory alone, may come first.
WAIT, TRIGGER = 0x82E, 0x82D
READS = (sass.LDG, sass.LDGSTS, 0x980)
CHANGES = (0x9A8, 0x9A3, 0x3A9, 0x98E, 0x9A6, 0x98A, 0x9A2, 0x38B)
ACCESSES = ({opcode: "reads" for opcode in READS} | {0x986: "writes", 0x985: "writes"}
            | {opcode: "changes" for opcode in CHANGES})
BRANCHES = (sass.BRA, sass.EXIT, sass.RET)


def problem(instructions):
    """Why such a kernel may not be launched early; None where it may."""
    for instruction in instructions:
        if instruction.opcode == WAIT:
            return None if instruction.always else "some threads alone wait for earlier work"
        if instruction.opcode == TRIGGER:
            return "lets the next kernel begin before it has waited for earlier work"
        if instruction.opcode in ACCESSES:
            return f"{ACCESSES[instruction.opcode]} global memory before it waits for earlier work"
        if instruction.opcode in BRANCHES:
            return "branches or ends before it waits for earlier work"
    return "never waits for earlier work"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    count = code = 0
    for file in parser.parse_args().files:
        found = [(cubin, kernel[0]) for cubin in cubins(file.read_bytes()) for kernel in cubin.kernels()]
        if not found:
            print(f"{file}: no kernels are found in it", file=sys.stderr)
            return 2
        for cubin, name in found:
            if cubin.architecture != ARCHITECTURE:
                continue
            count += 1
            why = problem(sass.decode(cubin.code(name)))
            if why:
                print(f"{file}: {name}: {why}")
                code = 1
    if count == 0:
        print("not checked: no kernels for compute capability 9.0")
        return SKIPPED
    if code == 0:
        print(f"{count} kernels wait")
    return code


if __name__ == "__main__":
    sys.exit(main())
