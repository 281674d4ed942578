#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes core/data/bpe/character_ranges.inc: where runs of characters of one class begin.

make_character_ranges.py

The class of a character decides where a text is cut before its bytes are merged, so that a table of
another version of Unicode makes other tokens. 16.0 is what Hugging Face's tokenizers 0.23 has.
Needs Python 3.14, or the package unicodedata2 16.0.0.
"""
import pathlib
import unicodedata

VERSION = "16.0.0"
OUTPUT = pathlib.Path(__file__).resolve().parent.parent / "core/data/bpe/character_ranges.inc"
OTHER, LETTER, NUMBER, SPACE = range(4)  # as CharacterClass has them
# White_Space of the Unicode Character Database that has no category of its own.
CONTROL_SPACES = "\t\n\v\f\r\x85"

if unicodedata.unidata_version != VERSION:
    import unicodedata2 as unicodedata
if unicodedata.unidata_version != VERSION:
    raise SystemExit(f"Unicode {VERSION} is needed, this is {unicodedata.unidata_version}")


def class_of(code):
    category = unicodedata.category(chr(code))
    if category[0] == "L":
        return LETTER
    if category[0] == "N":
        return NUMBER
    return SPACE if category[0] == "Z" or chr(code) in CONTROL_SPACES else OTHER


classes = [class_of(code) for code in range(0x110000)]
begins = [f"0x{code << 2 | kind:x}" for code, kind in enumerate(classes)
          if code == 0 or classes[code - 1] != kind]
lines = [f"// Made by scripts/make_character_ranges.py, of Unicode {VERSION}."]
lines += [", ".join(begins[i:i + 12]) + "," for i in range(0, len(begins), 12)]
OUTPUT.write_text("\n".join(lines) + "\n")
