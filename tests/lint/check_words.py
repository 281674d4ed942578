#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that messages, help, comments and documentation use the usual words of the field.

check_words.py [ROOT] [--count]

Reads string literals and comments of C++ and CUDA, comments of CMake, shell and Python below the
folders of the program, README.md and docs/. A phrase is found across line ends. Text in backticks
and string literals of a single word are names (JSON keys, flags, identifiers) and not checked.
Names in code are compared with a short list of their own.

Prints one line a finding, with what to write; exit code 1 where there is one. With --count it
prints how often each retired phrase occurs and finds nothing.
"""
import argparse
import collections
import pathlib
import re
import sys

TOPS = ("core", "kernels", "parallel", "launcher", "include", "examples", "scripts", "packaging",
        "cmake", "docs")
FILES = ("README.md", "CMakeLists.txt", ".ci/run")
CODE = (".h", ".cpp", ".cu", ".cuh", ".inc", ".c")
SCRIPTS = (".cmake", ".sh", ".py", ".sbatch", "CMakeLists.txt", "run")

# (what is found, what to write)
WORDS = tuple((re.compile(found, re.IGNORECASE), write) for found, write in (
    (r"\btold by\b", "(source: ...), set by, reported by, recognised by"),
    (r"\b(was|were|is|are|been) told\b", "reported, set, notified"),
    (r"\bno meaning with\b", "cannot be combined with"),
    (r"\b(stands?|stood|standing) still\b|\bstand-?still\b", "stalls, waits"),
    (r"\bpassed over\b", "skipped"),
    (r"\b(left|leaves|leaving) out\b", "skipped (step, batch, checkpoint), omitted"),
    (r"\b(goes|went|gone) on\b|\bto go on\b", "resumes (a run), continues"),
    (r"\bsharers?\b", "co-located ranks"),
    (r"\bcrowded\b", "CPU-oversubscribed"),
    (r"\bpictures?\b", "image"),
    (r"\bmatrix products?\b|\bbf16 products?\b|\bproducts? and convolutions?\b", "GEMM, matmul"),
    (r"\bforgiv(e|es|en|ing)\b", "clear the error"),
    (r"\bin vain\b", "requested size, failed allocation"),
    (r"\b(takes|taken|took) in\b", "fused into; counted; spans"),
    (r"\bjoined kernels?\b", "fused small kernels, batched launch"),
    (r"\bbehind\b", "after; concurrently with"),
    (r"\bbesides?\b", "next to; in addition to; concurrently with"),
    (r"\bnobody\b", "the actor: no rank, no other process, by default, unknown"),
    (r"\b(some|every)body\b", "the actor: a process, a user, all ranks"),
    (r"(?<!there )\b(is|are|was|were) no (?!longer\b|more\b|less\b|larger\b|smaller\b)[a-z]",
     "is not a, is not a valid"),
    (r"\bculprits?\b", "faulting rank"),
    (r"\bpunctual\b", "wait for the previous save"),
    (r"\bledgers?\b", "time breakdown, deadlock detector"),
    (r"\blast words\b", "failure handler"),
    (r"\bstands? in for\b", "is a placeholder for, replaces"),
    (r"\bstands? in the stream\b|\bstands? in stream order\b", "stream-ordered"),
    (r"\b(holds?|held) (it |them |a run )?back\b", "bottleneck; throttles"),
    (r"\bwhole gathers?\b", "all-gather of small buckets"),
    (r"\bpending sums?\b", "partial sums"),
    (r"\btold apart\b", "distinguished"),
    (r"\bmemory bus\b", "memory controller"),
    (r"\b(GPU|device) did nothing\b", "GPU idle"),
))

# Names in code that had another word: (what is found, what to write)
NAMES = tuple((re.compile(rf"\b(?:{found})\b"), write) for found, write in (
    (r"kMost\w*", "kMax..."),
    (r"kLeast\w*|kFewest\w*", "kMin..."),
    (r"\w*[cC]ulprit\w*", "faulting_rank"),
    (r"sharers|\w+_sharers", "colocated_ranks"),
    (r"LeftOut|leave_out", "SkippedBatches, skip"),
    (r"settle_\w+", "resolve_..."),
    (r"\w*[pP]unctual\w*", "wait for the previous save"),
    (r"\w*[lL]edger\w*", "breakdown, detector"),
    (r"whole_gather|pending_sums|chunk_exchange|told_error|outcome_ring", "the glossary's name"),
    (r"forgive", "clear_error"),
))

# (file, text around the finding, why it may stay)
ALLOWED = (
    ("kernels/cpu/cpu_backend.cpp", "cpu, {}, bf16 products {}, {}",
     "a value of the fingerprint: another one would refuse checkpoints of before"),
)

TOKEN = re.compile(
    r'(?P<raw>R"(?P<mark>[^(\s]*)\((?P<text>.*?)\)(?P=mark)")|(?P<string>"(?:[^"\\\n]|\\.)*")'
    r"|(?P<character>'(?:[^'\\\n]|\\.)+')|(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)", re.DOTALL)


class Text:
    """Text of a file that belongs together, and the line that each character comes from."""

    def __init__(self):
        self.characters, self.lines = "", []

    def add(self, text, line, between):
        if self.characters and between:
            text = between + text
        for character in text:
            if character == "\n":
                line += 1
            space = character.isspace()
            if space and self.characters.endswith(" "):
                continue
            self.characters += " " if space else character
            self.lines.append(line)


def texts_of_code(content):
    """Each run of adjacent string literals, and each run of lines of comment, as one text."""
    found, kind, end = [], None, 0
    line, counted = 1, 0
    for token in TOKEN.finditer(content):
        line += content.count("\n", counted, token.start())
        counted = token.start()
        gap = content[end:token.start()]
        if token["line"] or token["block"]:
            now, text = "comment", (token["line"] or token["block"][:-2]).lstrip("/*").lstrip("<")
        elif token["string"] or token["raw"]:
            now = "string"
            text = token["text"] if token["raw"] else token["string"][1:-1].replace("\\n", "  ")
        else:
            continue
        if now != kind or gap.strip() or not found or gap.count("\n") > 1:
            found.append((now, Text()))
        found[-1][1].add(text, line, " " if now == "comment" else "")
        kind, end = now, token.end()
    # A string of one word is a name: of a key, a flag, a file.
    return [text for now, text in found if now == "comment" or " " in text.characters.strip()]


def code_of(content):
    """The lines without strings and comments."""
    return TOKEN.sub(lambda token: "\n" * token[0].count("\n"), content).split("\n")


def texts_of_script(content):
    """Comments alone: strings of scripts are commands, patterns and names as well."""
    found, last = [], -1
    for number, line in enumerate(content.split("\n"), 1):
        comment = re.match(r"\s*#+(.*)", line)
        if not comment:
            continue
        if number != last + 1:
            found.append(Text())
        found[-1].add(comment[1], number, " ")
        last = number
    return found


def texts_of_page(content):
    """Paragraphs; a row of a table and an item of a list is in one with its neighbours."""
    found = [Text()]
    for number, line in enumerate(content.split("\n"), 1):
        if not line.strip():
            found.append(Text())
        elif not line.startswith("<!--"):  # how a test runs the commands below
            found[-1].add(line, number, " ")
    return found


def texts_of(path):
    content = path.read_text(errors="replace")
    if path.suffix == ".md":
        return texts_of_page(content)
    if path.suffix in CODE:
        return texts_of_code(content)
    return texts_of_script(content)


def without_names(text):
    return re.sub(r"`[^`]*`", lambda name: "`" + "_" * (len(name[0]) - 2) + "`", text)


def findings_in(root, name):
    """(line, what was found, what to write)"""
    for text in texts_of(root / name):
        characters = without_names(text.characters)
        for word, write in WORDS:
            for found in word.finditer(characters):
                around = text.characters[max(0, found.start() - 60):found.end() + 60]
                if any(name == file and allowed in around for file, allowed, _ in ALLOWED):
                    continue
                yield text.lines[found.start()], found[0], write
    if pathlib.PurePath(name).suffix in CODE:
        for number, line in enumerate(code_of((root / name).read_text(errors="replace")), 1):
            for word, write in NAMES:
                for found in word.finditer(line):
                    yield number, found[0], write


def files_of(root):
    names = [name for name in FILES if (root / name).is_file()]
    for top in TOPS:
        names += [path.relative_to(root).as_posix() for path in sorted((root / top).rglob("*"))
                  if path.is_file() and (path.suffix in CODE + (".md",) or
                                         path.name.endswith(SCRIPTS))]
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("root", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--count", action="store_true")
    arguments = parser.parse_args()
    counts = collections.Counter()
    for name in files_of(arguments.root):
        for line, found, write in sorted(findings_in(arguments.root, name)):
            counts[found.lower()] += 1
            if not arguments.count:
                print(f'{name}:{line}: "{found}"  [write: {write}]')
    if arguments.count:
        for found, count in counts.most_common():
            print(f"{count:5} {found}")
        return 0
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())
