#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks links and file names of the documentation.

check_links.py [ROOT]

A relative link must lead to a file below ROOT, and to a heading where it names one. A path in
parentheses without a text in brackets right before it is a link with a mistake in it. A file of
the tree that is named in backticks must exist, except for those of the examples in
docs/extending.md. Links to other sites are not followed.

Prints one line a finding; exit code 1 where there is one.
"""
import pathlib
import re
import sys

FOLDERS = ("core", "kernels", "parallel", "launcher", "include", "examples", "tests", "docs",
           "scripts", "cmake", "packaging")
LINK = re.compile(r"\]\(([^)\s]+)\)")
NOT_A_LINK = re.compile(r"(?<!\])\((?:\.\.?/[^)\s]+|[\w./-]+\.md(?:#[\w-]*)?)\)")
FILE = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]+\.\w+)`")
EXAMPLES = re.compile(r"/(square|waves)\b|/(square|waves)_")


def documents(root):
    yield root / "README.md"
    for folder in FOLDERS:
        yield from sorted((root / folder).rglob("*.md"))


def prose(text):
    """`text` without what stands in blocks of code; its lines keep their numbers."""
    return re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), text,
                  flags=re.MULTILINE | re.DOTALL)


def headings(document):
    """As links name them."""
    names = re.findall(r"^#+ (.*)$", prose(document.read_text()), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-") for name in names}


def leads_somewhere(target, document, root):
    file, _, heading = target.partition("#")
    place = (document.parent / file).resolve() if file else document
    if not place.exists() or not place.is_relative_to(root):
        return False
    return not heading or heading in headings(place)


def findings(root):
    for document in documents(root):
        name = document.relative_to(root).as_posix()
        for number, line in enumerate(prose(document.read_text()).split("\n"), start=1):
            without_code = re.sub(r"`[^`]*`", "", line)
            for target in LINK.findall(line):
                if not re.match(r"[a-z]+:", target) and not leads_somewhere(target, document, root):
                    yield f"{name}:{number}: {target} leads nowhere"
            for found in NOT_A_LINK.findall(without_code):
                yield f"{name}:{number}: {found} has no text in brackets right before it"
            for file in FILE.findall(line):
                if not EXAMPLES.search(file) and not (root / file).exists():
                    yield f"{name}:{number}: `{file}` does not exist"


def main():
    default = pathlib.Path(__file__).resolve().parents[2]
    found = list(findings(pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else default))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
