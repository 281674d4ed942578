#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that meets a oneDNN of another version: onednn_test.py LOCKSTEP LIBRARY, of other_onednn.c."""
import os
import subprocess
import sys
import tempfile

program, library = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run(
        [program, "train", "--data", "synthetic:8x8x1:4", "--model", "mlp", "--ranks", "1", "--device", "cpu",
         "--epochs", "1", "--out", folder + "/run"],
        env=os.environ | {"LD_PRELOAD": library}, capture_output=True, text=True, check=False, timeout=120)
text = done.stdout + done.stderr
assert done.returncode == 3, f"exit code {done.returncode}: {text}"
for word in ("oneDNN", library, "is version 1.2.3", "or later of", "is wanted", "LD_LIBRARY_PATH"):
    assert word in text, f"'{word}' is missing in: {text}"
