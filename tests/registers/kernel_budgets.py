#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What own kernels cost by their machine code for compute capability 9.0, and whether that is within their budgets.

    python3 tests/registers/kernel_budgets.py FILE...                                  # the table
    python3 tests/registers/kernel_budgets.py FILE... --toolkit 13.0 --check BUDGETS   # exit code 1: exceeded
    python3 tests/registers/kernel_budgets.py FILE... --toolkit 13.0 --write BUDGETS   # new budgets

FILE is an object, archive or program with kernels in it. Of each kernel:

    regs    registers a thread
    local   bytes a thread that instructions write to local memory, and read from it: spills, arrays with computed indices
    shared  bytes of static shared memory
    instrs  instructions in all
    loop    instructions in the largest loop that has no other in it, which after unrolling are of several elements;
            what it calls, like an exact division's slow path, is not counted
    loads   reads of global memory in that loop, as count x bytes a thread
    flight  their bytes a thread: what is under way at most if all start before the first is used

A budget bounds regs, local, loop and instrs. --write takes what is found, registers rounded up to eight, by which the
device hands them out, and instructions plus 5%. Counts depend on the compiler: with another toolkit than the budgets
name, or for another device, nothing is compared, and the exit code is 77. 2: no file holds a kernel.
"""
import argparse
import collections
import ctypes
import pathlib
import sys

import sass
from cubin import cubins

ARCHITECTURE = 90
SKIPPED = 77
Cost = collections.namedtuple("Cost", "registers stored loaded shared instructions loop loads")
Budget = collections.namedtuple("Budget", "registers local loop instructions")
WORDS = {"registers": "registers a thread", "local": "bytes of local memory written and read",
         "loop": "instructions in the hottest loop", "instructions": "instructions in all"}


def demangle(name):
    """As written in the source, without namespaces and parameters."""
    library = ctypes.CDLL("libstdc++.so.6")
    function = library.__cxa_demangle
    function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_char_p] + [ctypes.c_void_p] * 3
    result = function(name.encode(), None, None, None)
    if not result:
        return name
    text = ctypes.string_at(result).decode()
    for word in ("lockstep::", "cuda::", "(anonymous namespace)::"):
        text = text.replace(word, "")
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            text = text[:i]
            break
    return text.removeprefix("void ")


def cost(code, registers, shared):
    instructions = sass.decode(code)
    hot = sass.hottest_loop(instructions)
    count = collections.Counter(i.width() for i in hot if i.opcode in (sass.LDG, sass.LDGSTS))

    def local(opcode):
        return sum(i.width() for i in instructions if i.opcode == opcode)

    return Cost(registers, local(sass.STL), local(sass.LDL), shared, len(instructions), len(hot), dict(count))


def costs(files):
    """Cost of every kernel for ARCHITECTURE, by name."""
    kernels = [(cubin, kernel) for file in files for cubin in cubins(file.read_bytes()) for kernel in cubin.kernels()]
    if not kernels:
        print(f"{' '.join(map(str, files))}: no kernels are found", file=sys.stderr)
        raise SystemExit(2)
    return {demangle(name): cost(cubin.code(name), registers, shared)
            for cubin, (name, registers, _, shared) in kernels if cubin.architecture == ARCHITECTURE}


def loads_text(loads):
    return " ".join(f"{count}x{width}" for width, count in sorted(loads.items(), reverse=True)) or "-"


def print_table(found):
    print(" regs  local st/ld  shared  instrs   loop  loads           flight  kernel")
    for name, c in sorted(found.items()):
        flight = sum(width * count for width, count in c.loads.items())
        print(f"{c.registers:5} {c.stored:6}/{c.loaded:<5} {c.shared:7} {c.instructions:7} {c.loop:6}  "
              f"{loads_text(c.loads):15} {flight:6}  {name}")


def of_cost(c):
    return Budget(c.registers, c.stored + c.loaded, c.loop, c.instructions)


def read_budgets(file):
    """The toolkit that they were taken with, and the budgets by kernel."""
    toolkit, budgets = None, {}
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if line.startswith("toolkit "):
            toolkit = line.split()[1]
        elif line.strip() and not line.startswith("#"):
            words = line.split(maxsplit=4)
            if len(words) < 5 or not all(word.isdigit() for word in words[:4]):
                raise SystemExit(f"{file}:{number}: expected four numbers and a kernel's name, got: {line}")
            budgets[words[4]] = Budget(*map(int, words[:4]))
    return toolkit, budgets


def write_budgets(file, toolkit, found):
    lines = ["# SPDX-License-Identifier: Apache-2.0",
             "# Bounds of own kernels' machine code for compute capability 9.0, which kernel_budgets.py --check compares",
             "# and --write writes: registers a thread, bytes of local memory written and read, instructions in the hottest",
             "# loop, instructions in all, kernel.", f"toolkit {toolkit}"]
    for name, c in sorted(found.items()):
        b = of_cost(c)
        lines.append(f"{-(-b.registers // 8) * 8:3} {b.local:4} {-(-b.loop * 21 // 20):5} "
                     f"{-(-b.instructions * 21 // 20):6}  {name}")
    file.write_text("\n".join(lines) + "\n")


def problems(found, budgets):
    """What is not within its budget, or has none, one line each."""
    for name, c in sorted(found.items()):
        if name not in budgets:
            yield f"{name}: has no budget"
            continue
        for field, limit, value in zip(Budget._fields, budgets[name], of_cost(c)):
            if value > limit:
                yield f"{name}: {value} {WORDS[field]}, its budget is {limit}"
    for name in sorted(set(budgets) - set(found)):
        yield f"{name}: has a budget, and no such kernel is compiled"


def check(found, file, toolkit, files):
    wanted, budgets = read_budgets(file)
    if toolkit != wanted or not found:
        built = f"toolkit {toolkit}" if found else "no kernels for compute capability 9.0"
        print(f"not compared: {file.name} holds for toolkit {wanted} and compute capability 9.0, and this is {built}")
        return SKIPPED
    wrong = list(problems(found, budgets))
    if not wrong:
        print(f"{len(found)} kernels are within their budgets")
        return 0
    print("\n".join(wrong))
    print(f"\nWhere that is meant: python3 tests/registers/kernel_budgets.py {' '.join(map(str, files))} "
          f"--toolkit {toolkit} --write {file}\nand say in the commit what the kernel gets for it. "
          "Without --check and --write it prints the table of all.")
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--toolkit", default="", help="version of nvcc; the first two numbers count")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", type=pathlib.Path, metavar="BUDGETS")
    action.add_argument("--write", type=pathlib.Path, metavar="BUDGETS")
    options = parser.parse_args()
    if (options.check or options.write) and not options.toolkit:
        parser.error("--toolkit is needed with --check and --write")
    toolkit = ".".join(options.toolkit.split(".")[:2])
    found = costs(options.files)
    if options.write:
        write_budgets(options.write, toolkit, found)
    elif options.check:
        return check(found, options.check, toolkit, options.files)
    else:
        print_table(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
