#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that an optimizer is the files that docs/extending.md says, and no others know its name.

check_optimizers.py [ROOT]

The table in the section "An optimizer" lists the files by the example's name, lion. Of each
optimizer of include/lockstep/optimizer.h all of them must be there, and no other file of include,
core, kernels and parallel may name it, outside of comments. USES has the files that choose an optimizer,
as any program does.

Prints one line a finding; exit code 1 where there is one.
"""
import pathlib
import re
import sys

TOPS = ("include", "core", "kernels", "parallel")
SOURCES = (".h", ".cpp", ".cu", ".cuh", ".inc")
LIST = "include/lockstep/optimizer.h"
DOCUMENT = "docs/extending.md"
EXAMPLE = "lion"
USES = {
    "include/lockstep/train_options.h",  # the default of TrainOptions::optimizer
    "parallel/memory/memory_advisor.cpp",  # advises the one that needs the least memory
}


def documented_files(root):
    """The files of the product in the section's table, with {name} for the example's name."""
    text = (root / DOCUMENT).read_text()
    section = re.search(r"^## An optimizer\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| `([^`]+)` \|", section[1] if section else "", re.MULTILINE)
    return [row.replace(EXAMPLE, "{name}") for row in rows if row.startswith(TOPS)]


def listed_optimizers(root):
    """[(class, name)] of LOCKSTEP_OPTIMIZERS."""
    return re.findall(r"^\s*OPTIMIZER\((\w+), (\w+)\)", (root / LIST).read_text(), re.MULTILINE)


def files_naming(root, type_name, name, longer):
    """Paths of the files whose code, without comments, has the class or the name as a word's start.

    `longer`: classes of others whose names begin with this one's, as AdamW's with Adam.
    """
    spellings = "|".join({type_name, name, name.capitalize(), name.upper()})
    others = "".join(rf"(?!{other})" for other in longer)
    pattern = re.compile(rf"(?<![A-Za-z]){others}({spellings})(?![a-z])")
    found = set()
    for top in TOPS:
        for path in (root / top).rglob("*"):
            if path.suffix not in SOURCES:
                continue
            code = re.sub(r"//.*", "", path.read_text(errors="replace"))
            relative = path.relative_to(root).as_posix()
            if pattern.search(code) or pattern.search(path.stem):
                found.add(relative)
    return found


def findings(root):
    files = documented_files(root)
    if not files:
        yield f'{DOCUMENT}: no table of files in a section "An optimizer"'
        return
    optimizers = listed_optimizers(root)
    if not optimizers:
        yield f"{LIST}: no line OPTIMIZER(class, name)"
    for type_name, name in optimizers:
        expected = {file.format(name=name) for file in files}
        for file in sorted(expected):
            if not (root / file).is_file():
                yield f"{file}: missing  [{DOCUMENT} names it for every optimizer]"
        longer = [other for other, _ in optimizers if other != type_name and
                  other.startswith(type_name)]
        for file in sorted(files_naming(root, type_name, name, longer) - expected - USES):
            yield (f"{file}: names the optimizer {name}  [only {', '.join(sorted(expected))} may: "
                   f"ask core/optim/optimizer.h instead]")


def main():
    default = pathlib.Path(__file__).resolve().parents[2]
    found = list(findings(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
