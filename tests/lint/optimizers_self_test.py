#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants one violation of each rule into a small tree and expects check_optimizers.py to find it."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(__file__).resolve().parent / "check_optimizers.py"
DOCUMENT = """## An optimizer

| file | gets |
|---|---|
| `include/lockstep/optimizers/lion.h` | the struct |
| `include/lockstep/optimizer.h` | a line |
| `kernels/cpu/optimizers/lion.cpp` | the kernel |
| `tests/ops/optimizers_test.cpp` | a test |

## A model
"""


class Optimizers(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        self.write("docs/extending.md", DOCUMENT)
        self.write("include/lockstep/optimizer.h", "#define LIST(OPTIMIZER) \\\n  OPTIMIZER(AdamW, adamw)")
        self.write("include/lockstep/optimizers/adamw.h", "struct AdamW {};")
        self.write("kernels/cpu/optimizers/adamw.cpp", "void adamw_update(const AdamW&);")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def findings(self):
        result = subprocess.run([sys.executable, CHECK, self.root], text=True, check=False,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(result.returncode, 1 if result.stdout else 0, result.stdout)
        return result.stdout

    def test_a_clean_tree_is_clean(self):
        self.write("core/exec/backend.h", "// as AdamW does\nvoid optimizer_update();")
        self.assertEqual(self.findings(), "")

    def test_a_backend_that_knows_an_optimizer(self):
        for code in ("void adamw_update();", "holds_alternative<AdamW>(o)", "AdamwUpdate u;"):
            with self.subTest(code):
                self.write("core/exec/backend.h", code)
                self.assertIn("core/exec/backend.h: names the optimizer adamw", self.findings())

    def test_a_name_that_another_begins_with(self):
        self.write("include/lockstep/optimizer.h", "#define LIST(OPTIMIZER) \\\n"
                   "  OPTIMIZER(AdamW, adamw) \\\n  OPTIMIZER(Adam, adam)")
        self.write("include/lockstep/optimizers/adam.h", "struct Adam {};")
        self.write("kernels/cpu/optimizers/adam.cpp", "void adam_update(const Adam&);")
        self.assertEqual(self.findings(), "")
        self.write("core/exec/backend.h", "Adam default;")
        self.assertIn("core/exec/backend.h: names the optimizer adam", self.findings())

    def test_a_further_file_of_an_optimizer(self):
        self.write("kernels/cpu/loops/adamw.cpp", "")
        self.assertIn("kernels/cpu/loops/adamw.cpp: names", self.findings())

    def test_a_file_that_is_missing(self):
        (self.root / "kernels/cpu/optimizers/adamw.cpp").unlink()
        self.assertIn("kernels/cpu/optimizers/adamw.cpp: missing", self.findings())

    def test_a_document_without_the_table(self):
        self.write("docs/extending.md", "## A model")
        self.assertIn("no table of files", self.findings())


if __name__ == "__main__":
    unittest.main()
