#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the fuzzers into tests/fuzz/corpus/TARGET/seed_*: whole files of each kind and
the classical malformed ones. The JPEG seeds, which Python's library cannot write, are committed as
they are. Inputs that fuzzers found lie next to them under other names."""
from seeds import checkpoints, datasets, images, preprocessing, runs, settings, tokenizers, torch_files

if __name__ == "__main__":
    for family in (checkpoints, datasets, images, preprocessing, runs, settings, tokenizers,
                   torch_files):
        family.write()
