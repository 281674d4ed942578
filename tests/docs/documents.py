# SPDX-License-Identifier: Apache-2.0
"""What a document holds that can be run: its ```sh blocks with their annotations.

An HTML comment on the line before a block says how it is tested:

  <!-- test: steps=3 fixture=mnist writes=runs/a/summary.json -->
  <!-- not run: needs Slurm -->

  steps=N      trainings in the block stop after N steps, whatever length their flags ask for
  fixture=F    what the block finds in its folder: see fixtures.py; may be repeated
  writes=PATH  what is there afterwards; * stands for any name; may be repeated
  prints=WORD  what its output holds; may be repeated
  exit=N       the exit code of the block's one command (default 0, of as many as there are): with
               several, the first that fails would end the block, whichever was meant

Blocks without a comment are run as they are. All blocks of a document run in one folder, in order.
"""
import dataclasses
import re
import shlex

KEYS = ("steps", "fixture", "writes", "prints", "exit")


class DocumentError(Exception):
    """What is wrong with a document, with its line."""


@dataclasses.dataclass
class Block:
    line: int
    text: str
    not_run: str = ""  # why
    settings: dict = dataclasses.field(default_factory=lambda: {key: [] for key in KEYS})

    def one(self, key, default):
        values = self.settings[key]
        return int(values[-1]) if values else default


def annotation(comment, line):
    """The settings, or the reason, in the text between <!-- and -->."""
    kind, _, rest = comment.partition(":")
    if kind == "not run":
        if not rest.strip():
            raise DocumentError(f"{line}: 'not run' needs a reason")
        return rest.strip(), None
    settings = {key: [] for key in KEYS}
    for part in shlex.split(rest):
        key, equals, value = part.partition("=")
        if key not in KEYS or not equals or not value:
            raise DocumentError(f"{line}: '{part}' is none of {', '.join(KEYS)} with a value")
        settings[key].append(value)
    return "", settings


def commands_in(text):
    """Lines that are neither empty nor comments nor go on from the one before."""
    lines = text.replace("\\\n", " ").splitlines()
    return sum(1 for line in lines if line.strip() and not line.lstrip().startswith("#"))


def blocks_of(text):
    """The ```sh blocks of a document."""
    blocks, lines, i, pending = [], text.splitlines(), 0, None
    while i < len(lines):
        comment = re.fullmatch(r"<!-- *((?:test|not run):.*?) *-->", lines[i].strip())
        if comment:
            pending = (annotation(comment[1], i + 1), i + 1)
        elif lines[i].startswith("```"):
            end = next((j for j in range(i + 1, len(lines)) if lines[j].startswith("```")), None)
            if end is None:
                raise DocumentError(f"{i + 1}: a block that does not end")
            if lines[i] == "```sh":
                block = Block(i + 1, "\n".join(lines[i + 1:end]) + "\n")
                if pending:
                    block.not_run, settings = pending[0]
                    block.settings = settings or block.settings
                if block.one("exit", 0) and commands_in(block.text) != 1:
                    raise DocumentError(f"{pending[1]}: exit= needs a block of one command")
                blocks.append(block)
            elif pending:
                raise DocumentError(f"{pending[1]}: belongs to no ```sh block")
            pending, i = None, end
        elif lines[i].strip() and pending:
            raise DocumentError(f"{pending[1]}: belongs to no ```sh block")
        i += 1
    return blocks
