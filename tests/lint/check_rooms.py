#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the arrows between folders, and looks for cycles and for folders that grow too large.

check_rooms.py [ROOT] [--figures | --drawing]

A folder may include itself, the folders that its library names after DEPENDS or PRIVATE_DEPENDS
(lockstep_library() in CMakeLists.txt), and what those depend on; and it includes something of each
of ours that it names. Folders of one library are one room. A header of include/lockstep belongs to
the room that names it after HEADERS, which has its source, and may be included where the room's
others may; it includes "lockstep/..." and the standard library alone, as it is installed without
the rest. The libraries themselves must not depend on each other in a circle, and neither may files:
a header and the source of its name count as one. A folder of the product has at most 40 files. The
drawing of the rooms in docs/engine.md is that of the includes.

Prints one line a finding; exit code 1 where there is one. With --figures it prints lines, files and
the like, with --drawing the drawing, and finds nothing.
"""
import argparse
import collections
import pathlib
import re
import statistics
import sys

TOPS = ("core", "kernels", "parallel", "launcher", "include", "examples")
SOURCES = (".h", ".cpp", ".cu", ".cuh", ".inc")
MAX_FILES = 40
DOCUMENT = "docs/engine.md"
DRAWN = re.compile(r"^<!-- rooms: .*-->\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PUBLIC = "include/lockstep/"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
SYSTEM_INCLUDE = re.compile(r'^\s*#\s*include\s+<([^>]+)>', re.MULTILINE)
CALL = re.compile(r"lockstep_library\((\w+)([^)]*)\)")
GROUP = re.compile(r"lockstep_group\((\w+)([^)]*)\)")


class Tree:
    def __init__(self, root):
        self.root = root
        self.files = sorted(
            path.relative_to(root).as_posix() for top in TOPS for path in (root / top).rglob("*")
            if path.is_file() and path.suffix in SOURCES)
        known = set(self.files)
        self.includes, self.foreign = {}, {}  # foreign: what a public header must not include
        for name in self.files:
            text = (root / name).read_text(errors="replace")
            quoted = {self.path(other) for other in INCLUDE.findall(text)}
            self.includes[name] = sorted(quoted & known)
            if name.startswith(PUBLIC):
                self.foreign[name] = sorted(
                    {other for other in quoted if other not in known or not other.startswith(PUBLIC)} |
                    {other for other in SYSTEM_INCLUDE.findall(text) if re.search("[./]", other)})
        self.read_libraries()

    @staticmethod
    def path(included):
        """Where a file is that is included as "lockstep/error.h" or "core/base/env.h"."""
        return "include/" + included if included.startswith("lockstep/") else included

    def read_libraries(self):
        """Which library each folder belongs to, and the libraries that each names."""
        self.library_of, self.depends = {}, collections.defaultdict(set)
        self.headers, self.folders = {}, collections.defaultdict(list)  # of a library
        self.globbed = set()  # below which a listing takes sources by patterns of its own
        for listing in sorted(self.root.rglob("CMakeLists.txt")):
            folder = listing.parent.relative_to(self.root)
            if not folder.parts or folder.parts[0] not in TOPS:
                continue
            text = re.sub(r"#.*", "", listing.read_text())
            for place in re.findall(r"file\(GLOB[^)]*\}/(\w+)/\*\.cpp", text):
                self.globbed.add((folder / place).as_posix())
            lists = dict(re.findall(r"set\((\w+) ([^)]*)\)", text))
            expand = lambda words: re.sub(r"\$\{(\w+)\}", lambda m: lists.get(m[1], ""), words)
            for name, words in GROUP.findall(text):
                self.depends[name] |= set(words.split())
            for name, words in CALL.findall(text):
                place = None
                for word in expand(words).split():
                    if word in ("FOLDERS", "HEADERS", "DEPENDS", "PRIVATE_DEPENDS"):
                        place = word
                    elif place == "FOLDERS":
                        self.library_of[(folder / word).as_posix()] = name
                        self.folders[name].append((folder / word).as_posix())
                    elif place == "HEADERS":
                        self.headers[f"{PUBLIC}{word}.h"] = name
                    else:
                        self.depends[name].add(word)
        self.named = set(self.library_of) | self.globbed
        # A folder that no library names belongs to that of the folder above it.
        for name in self.files:
            folder = pathlib.PurePosixPath(name).parent
            for parent in (folder, *folder.parents):
                if parent.as_posix() in self.library_of:
                    self.library_of.setdefault(folder.as_posix(), self.library_of[parent.as_posix()])
                    break

    def library(self, name):
        if name in self.headers:
            return self.headers[name]
        return self.library_of.get(pathlib.PurePosixPath(name).parent.as_posix())

    def reachable(self, library, seen=None):
        seen = set() if seen is None else seen
        for other in self.depends[library]:
            if other not in seen:
                seen.add(other)
                self.reachable(other, seen)
        return seen

    def module_graph(self):
        known = set(self.files)

        def module(name):
            """The path without its suffix; of a public header, that of its source."""
            stem = pathlib.PurePosixPath(name).stem
            for folder in self.folders.get(self.headers.get(name), ()):
                if f"{folder}/{stem}.cpp" in known:
                    return f"{folder}/{stem}"
            return name.rsplit(".", 1)[0]

        graph = collections.defaultdict(set)
        for name, included in self.includes.items():
            graph[module(name)] |= {module(other) for other in included} - {module(name)}
        return graph


def cycles(graph):
    """Strongly connected components of more than one node (Tarjan 1972), each sorted."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            component = []
            while not component or component[-1] != node:
                component.append(stack.pop())
            if len(component) > 1:
                found.append(sorted(component))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def folder_sizes(tree):
    return collections.Counter(pathlib.PurePosixPath(name).parent.as_posix() for name in tree.files)


def room_graph(tree):
    """The rooms that each includes, by their folders; those that follow from another are omitted."""
    folder_of = {}
    for folder, library in tree.library_of.items():
        if library not in folder_of or len(folder) < len(folder_of[library]):
            folder_of[library] = folder
    room = lambda name: folder_of.get(tree.library(name), name.split("/", maxsplit=1)[0])
    graph = {room(name): set() for name in tree.files}
    for name, included in tree.includes.items():
        graph[room(name)] |= {room(other) for other in included} - {room(name)}

    def reachable(start, seen):
        for other in graph[start] - seen:
            seen.add(other)
            reachable(other, seen)
        return seen

    return {name: {other for other in others
                   if not any(other in reachable(third, set()) for third in others - {other})}
            for name, others in graph.items()}


def drawing(tree):
    """One line a room: its arrows lead to rooms of lines above it."""
    graph, lines = room_graph(tree), []
    drawn = {}

    def level(room):
        if room not in drawn:
            drawn[room] = 1 + max(map(level, graph[room]), default=0)
        return drawn[room]

    for top in TOPS:
        if top == "examples":  # they include what is installed
            continue
        rooms = sorted((room for room in graph if room.split("/")[0] == top),
                       key=lambda room: (level(room), room))
        if rooms and rooms != [top]:
            lines.append(f"{top}/")
        for room in rooms:
            name = "  " + room.removeprefix(top + "/") if room != top else top
            arrows = ", ".join(sorted(other.removeprefix(top + "/") for other in graph[room]))
            lines.append(f"{name:14} -> {arrows}" if arrows else name)
    return "".join(line + "\n" for line in lines)


def public_findings(tree):
    for name, foreign in tree.foreign.items():
        for other in foreign:
            yield f"{name}: {other}  [a public header includes \"lockstep/...\" and the standard library alone]"
        if name not in tree.headers and name != PUBLIC + "lockstep.h":
            yield f"{name}: no lockstep_library() names it after HEADERS"
    for name in sorted(tree.headers.keys() - tree.foreign.keys()):
        yield f"{name}: missing  [{tree.headers[name]} names it after HEADERS]"


def findings(tree):
    yield from public_findings(tree)
    for name, included in tree.includes.items():
        own = tree.library(name)
        if own is None:
            if not name.startswith(("include/", "examples/")):
                yield f"{name}: its folder belongs to no lockstep_library()"
            continue
        allowed = {own} | tree.reachable(own)
        for other in included:
            if tree.library(other) not in allowed:
                yield f'{name}: "{other}"  [{own} does not depend on {tree.library(other)}]'
    for folder in sorted({pathlib.PurePosixPath(name).parent.as_posix() for name in tree.files
                          if name.endswith(".cpp") and not name.startswith("examples/")}):
        if folder not in tree.named and not folder.endswith("/absent"):
            yield f"{folder}: no lockstep_library() names it, so its sources are not compiled"
    used = {(tree.library(name), tree.library(other))
            for name, included in tree.includes.items() for other in included}
    for library in sorted(set(tree.library_of.values())):
        for other in sorted(tree.depends[library] & set(tree.library_of.values())):
            if (library, other) not in used:
                yield f"{library}: DEPENDS names {other}, of which it includes nothing"
    for component in cycles(tree.depends):
        yield f"libraries in a circle: {', '.join(component)}"
    for component in cycles(tree.module_graph()):
        yield f"files in a circle: {', '.join(component)}"
    for folder, count in sorted(folder_sizes(tree).items()):
        if count > MAX_FILES:
            yield f"{folder}: {count} files  [{MAX_FILES} at most: divide it]"
    document = tree.root / DOCUMENT
    drawn = DRAWN.search(document.read_text()) if document.exists() else None
    if document.exists() and not drawn:
        yield f"{DOCUMENT}: no drawing of the rooms  [paste what check_rooms.py --drawing prints]"
    if drawn and not cycles(room_graph(tree)) and drawn[1] != drawing(tree):
        yield f"{DOCUMENT}: the drawing of the rooms  [paste what check_rooms.py --drawing prints]"


def figures(tree):
    sizes = [(tree.root / name).read_text(errors="replace").count("\n") for name in tree.files]
    folder, count = folder_sizes(tree).most_common(1)[0]
    found = cycles(tree.module_graph())
    return (f"{sum(sizes)} lines, {len(sizes)} files, median {statistics.median(sizes):.0f}, "
            f"largest folder {folder} with {count}, "
            f"{len(found)} cycles of {sum(map(len, found))} modules, {len(tree.depends)} libraries")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("root", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--figures", action="store_true")
    parser.add_argument("--drawing", action="store_true")
    arguments = parser.parse_args()
    sys.setrecursionlimit(10000)
    tree = Tree(arguments.root)
    if arguments.figures:
        print(figures(tree))
        return 0
    if arguments.drawing:
        print(drawing(tree), end="")
        return 0
    found = list(findings(tree))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
