#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kernel_budgets.py on the library of planted.cu: budgets_self_test.py LIBRARY."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import kernel_budgets
import sass
from cubin import cubins

library = pathlib.Path(sys.argv[1])


def run(*arguments):
    script = pathlib.Path(__file__).with_name("kernel_budgets.py")
    done = subprocess.run([sys.executable, "-B", script, library, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def compare_with_cuobjdump(tool):
    """That sass.py reads addresses, opcodes and targets as the toolkit does."""
    opcodes = {"BRA": sass.BRA, "BSSY": sass.BSSY, "EXIT": sass.EXIT, "RET": sass.RET, "LDG": sass.LDG,
               "LDGSTS": sass.LDGSTS, "LDL": sass.LDL, "STL": sass.STL}
    words = {"U8": 1, "U16": 2, "64": 8, "128": 16}
    text = subprocess.run([tool, "--dump-sass", library], capture_output=True, text=True, check=True).stdout
    compared = 0
    for part in text.split("Function : ")[1:]:
        name = part.split()[0]
        (code,) = [c.code(name) for c in cubins(library.read_bytes()) if ".text." + name in dict(c.sections)]
        by_address = {i.address: i for i in sass.decode(code)}
        for address, mnemonic, rest in re.findall(r"/\*([0-9a-f]{4,})\*/ +(?:@!?U?P\w+ +)?([A-Z][\w.]*)(.*?);", part):
            instruction = by_address.get(int(address, 16))
            kind, *flags = mnemonic.split(".")
            if instruction is None or kind not in opcodes:
                continue
            assert instruction.opcode == opcodes[kind], (name, address, mnemonic)
            if kind in ("BRA", "BSSY"):
                assert instruction.target() == int(rest.split(",")[-1], 16), (name, address)
            elif kind not in ("EXIT", "RET"):
                assert instruction.width() == next((words[f] for f in flags if f in words), 4), (name, address)
            compared += 1
    assert compared > 100


found = kernel_budgets.costs([library])
if not found:
    print("not tested: no kernels for compute capability 9.0")
    sys.exit(kernel_budgets.SKIPPED)
reading, spilling, straight = (found[name + "_kernel"] for name in ("reading", "spilling", "straight"))
assert reading.loads == {16: 4} and 20 < reading.loop < reading.instructions < 100, reading
assert spilling.registers <= 32 and spilling.stored > 0 and spilling.loaded > 0, spilling
assert spilling.loads == {} and spilling.loop >= 180, spilling
assert straight.loop == 0 and straight.loads == {} and straight.stored == straight.loaded == 0, straight

assert kernel_budgets.demangle("_ZN8lockstep4cuda12_GLOBAL__N_16kernelIfLi4EEEvPT_i") == "kernel<float, 4>"

with tempfile.TemporaryDirectory() as folder:
    budgets = pathlib.Path(folder) / "budgets.txt"
    code, text = run("--toolkit", "13.0.88", "--write", budgets)
    assert code == 0, text
    code, text = run("--toolkit", "13.0.2", "--check", budgets)
    assert code == 0 and "3 kernels are within" in text, text

    # A planted excess of each number, one at a time, names kernel, budget and what was found.
    for column, value in enumerate(kernel_budgets.of_cost(spilling)):
        lines = budgets.read_text().splitlines()
        for i, line in enumerate(lines):
            if line.endswith("spilling_kernel"):
                words = line.split()
                words[column] = str(value - 1)
                lines[i] = " ".join(words)
        tight = pathlib.Path(folder) / "tight.txt"
        tight.write_text("\n".join(lines) + "\n")
        code, text = run("--toolkit", "13.0", "--check", tight)
        assert code == 1 and text.startswith(f"spilling_kernel: {value} ") and f"is {value - 1}\n" in text, text
        assert "--write" in text and "reading_kernel" not in text, text

    # No kernel without a budget, no budget without a kernel.
    budgets.write_text(budgets.read_text().replace("straight_kernel", "other_kernel"))
    code, text = run("--toolkit", "13.0", "--check", budgets)
    assert code == 1 and "straight_kernel: has no budget" in text and "other_kernel: has a budget" in text, text
    # Another compiler's counts are others.
    code, text = run("--toolkit", "12.4.131", "--check", budgets)
    assert code == kernel_budgets.SKIPPED and "13.0" in text and "12.4" in text, text
    budgets.write_text("toolkit 13.0\n12 many 3 4 kernel\n")
    code, text = run("--toolkit", "13.0", "--check", budgets)
    assert code == 1 and "budgets.txt:2: expected four numbers" in text, text

tool = shutil.which("cuobjdump")
if tool:
    compare_with_cuobjdump(tool)
print("as expected" + (", and as cuobjdump reads them" if tool else ""))
