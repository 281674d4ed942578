#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants retired words into a small tree and expects check_words.py to find them there alone."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(__file__).resolve().parent / "check_words.py"


class Words(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        self.write("core/a.h", '/// Skips the batch. There is no other.\nconst char* a = "{} skipped";')
        self.write("README.md", "The run resumes.")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def findings(self, *options):
        result = subprocess.run([sys.executable, CHECK, self.root, *options], text=True, check=False,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if not options:
            self.assertEqual(result.returncode, 1 if result.stdout else 0, result.stdout)
        return result.stdout

    def expect(self, where, found, write):
        self.assertIn(f'{where}: "{found}"  [write: ', self.findings())
        self.assertIn(write, self.findings())

    def test_a_clean_tree_is_clean(self):
        self.assertEqual(self.findings(), "")

    def test_a_comment(self):
        self.write("core/a.cpp", "int a;\n/// The picture.")
        self.expect("core/a.cpp:2", "picture", "image")

    def test_a_string(self):
        self.write("launcher/a.cpp", 'fail("{} has no meaning with {}");')
        self.expect("launcher/a.cpp:1", "no meaning with", "cannot be combined with")

    def test_across_the_lines_of_a_comment(self):
        self.write("core/a.cpp", "int a;  // what was passed\n        // over")
        self.expect("core/a.cpp:1", "passed over", "skipped")

    def test_across_adjacent_strings(self):
        self.write("core/a.cpp", 'fail("training stood "\n     "still");')
        self.expect("core/a.cpp:1", "stood still", "stalls")

    def test_across_the_lines_of_a_page(self):
        self.write("docs/a.md", "# A\n\nThe run goes\non.")
        self.expect("docs/a.md:3", "goes on", "resumes")

    def test_a_comment_of_a_script(self):
        self.write("cmake/a.cmake", "# beside it\nmessage(behind)")
        self.expect("cmake/a.cmake:1", "beside", "next to")
        self.assertNotIn("behind", self.findings())

    def test_a_name_in_code(self):
        self.write("parallel/a.h", "constexpr int kMostRanks = 3;")
        self.expect("parallel/a.h:1", "kMostRanks", "kMax")

    def test_a_negation_with_no(self):
        self.write("core/a.cpp", 'fail("{} is no folder"); // there is no folder; it is no longer one')
        self.expect("core/a.cpp:1", "is no f", "is not a")
        self.assertEqual(self.findings().count("\n"), 1)

    def test_names_may_have_any_word(self):
        self.write("core/a.cpp", 'json["ledger"] = 1;  // the key `ledger`')
        self.write("docs/a.md", "The key `ledger`.")
        self.assertEqual(self.findings(), "")

    def test_separate_comments_make_no_phrase(self):
        self.write("core/a.cpp", "// passed\nint a;\n// over")
        self.assertEqual(self.findings(), "")

    def test_folders_of_not_yet_are_counted_alone(self):
        self.write("core/step/a.cpp", "// culprit")
        self.write("core/b.cpp", "// culprit")
        listed = "core/step" in CHECK.read_text()
        self.assertEqual("core/step/a.cpp" in self.findings(), not listed)
        self.assertIn("    2 culprit", self.findings("--count"))


if __name__ == "__main__":
    unittest.main()
