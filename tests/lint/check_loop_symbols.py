#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks object files of loops for several instruction sets; see the Note in kernels/cpu/isa.h.

check_loop_symbols.py ISA OBJECT...: prints each function or datum with external linkage that an
OBJECT defines outside of namespace lockstep::cpu::ISA; exit code 1 where there is one, or where
the objects define nothing.
"""
import re
import subprocess
import sys


def symbols_of(objects):
    """(object, kind, name), of what is defined with external linkage."""
    listing = subprocess.run(["nm", "--demangle", "--defined-only", "--extern-only", "--print-file-name", *objects],
                             text=True, capture_output=True, check=True).stdout
    return re.findall(r"^(.+?):[0-9a-f]+ (\w) (.*)$", listing, re.MULTILINE)


def main(isa, *objects):
    symbols = symbols_of(objects)
    outside = [symbol for symbol in symbols if f"lockstep::cpu::{isa}::" not in symbol[2]]
    for file, kind, name in outside:
        print(f"{file}: {name} ({kind}) is outside of lockstep::cpu::{isa}")
    if not symbols:
        print(f"the objects of {isa} define nothing")
    return 1 if outside or not symbols else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
