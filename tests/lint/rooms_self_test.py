#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants one violation of each rule into a small tree and expects check_rooms.py to find it."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(__file__).resolve().parent / "check_rooms.py"
LISTS = """lockstep_library(low FOLDERS low low/part HEADERS open)
lockstep_library(high FOLDERS high HEADERS wide DEPENDS low)
"""


class Rooms(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        self.write("core/CMakeLists.txt", LISTS)
        self.write("core/low/a.h", "")
        self.write("core/low/part/b.h", '#include "core/low/a.h"')
        self.write("core/high/c.cpp", '#include "core/low/part/b.h"\n#include "lockstep/open.h"')
        self.write("include/lockstep/open.h", "#include <string>")
        self.write("include/lockstep/wide.h", '#include "lockstep/open.h"')

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
        self.assertEqual(self.findings(), "")

    def test_an_arrow_that_no_library_names(self):
        self.write("core/high/d.h", "")
        self.write("core/low/a.cpp", '#include "core/high/d.h"')
        self.assertIn("core/low/a.cpp", self.findings())

    def test_an_arrow_that_no_file_needs(self):
        self.write("core/high/c.cpp", "")
        self.write("include/lockstep/wide.h", "")
        self.assertIn("high: DEPENDS names low", self.findings())

    def test_a_document_without_its_drawing(self):
        self.write("docs/engine.md", "# The engine")
        self.assertIn("docs/engine.md: no drawing", self.findings())

    def test_a_public_header_of_a_higher_room(self):
        self.write("core/low/a.cpp", '#include "lockstep/wide.h"')
        self.assertIn('core/low/a.cpp: "include/lockstep/wide.h"', self.findings())

    def test_a_public_header_that_includes_one_of_a_higher_room(self):
        self.write("include/lockstep/wide.h", "")
        self.write("include/lockstep/open.h", '#include "lockstep/wide.h"')
        self.assertIn('include/lockstep/open.h: "include/lockstep/wide.h"', self.findings())

    def test_a_public_header_that_includes_what_is_not_installed(self):
        self.write("include/lockstep/open.h", '#include "core/low/a.h"\n#include <fmt/format.h>')
        found = self.findings()
        self.assertIn("include/lockstep/open.h: core/low/a.h", found)
        self.assertIn("include/lockstep/open.h: fmt/format.h", found)

    def test_a_public_header_of_no_library(self):
        self.write("include/lockstep/other.h", "")
        self.assertIn("include/lockstep/other.h: no lockstep_library()", self.findings())

    def test_a_circle_by_way_of_a_public_header(self):
        self.write("core/low/open.cpp", '#include "core/low/a.h"')
        self.write("core/low/a.h", '#include "lockstep/open.h"')
        self.assertIn("core/low/a, core/low/open", self.findings())

    def test_libraries_in_a_circle(self):
        self.write("core/CMakeLists.txt", LISTS.replace("open)", "open DEPENDS high)"))
        self.assertIn("high, low", self.findings())

    def test_files_in_a_circle(self):
        self.write("core/low/a.cpp", '#include "core/low/part/b.h"')
        self.assertIn("core/low/a, core/low/part/b", self.findings())

    def test_a_folder_that_is_too_large(self):
        for number in range(41):
            self.write(f"core/high/{number}.h", "")
        self.assertIn("core/high: 42 files", self.findings())

    def test_a_folder_whose_sources_nobody_compiles(self):
        self.write("core/low/part/more/f.cpp", "")
        self.assertIn("core/low/part/more", self.findings())

    def test_a_folder_of_no_library(self):
        self.write("core/other/e.h", "")
        self.assertIn("core/other/e.h", self.findings())

    def test_a_drawing_that_is_not_that_of_the_includes(self):
        page = "<!-- rooms: a -->\n```text\ncore/\n  low\n  high         -> low\n```"
        self.write("docs/engine.md", page)
        self.assertEqual(self.findings(), "")
        self.write("docs/engine.md", page.replace(" -> low", ""))
        self.assertIn("docs/engine.md: the drawing", self.findings())


if __name__ == "__main__":
    unittest.main()
