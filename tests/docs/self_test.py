#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Documents with something wrong in them: run_document.py or check_links.py finds it.

self_test.py
"""
import contextlib
import io
import pathlib
import sys
import tempfile
import time
import unittest
from unittest import mock

import check_links
import run_document


class RunDocument(unittest.TestCase):
    def run_on(self, *lines):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name).resolve()
            (folder / "examples").mkdir()
            document = folder / "page.md"
            document.write_text("\n".join(lines) + "\n")
            with contextlib.redirect_stdout(io.StringIO()) as output:
                code = run_document.main("/bin/echo", folder, document)
        return code, output.getvalue()

    def expect_found(self, words, *lines):
        code, output = self.run_on(*lines)
        self.assertEqual(code, 1, output)
        self.assertIn(words, output)

    def test_nothing_wrong(self):
        code, output = self.run_on(
            "# A Page: of `words`", "", "[there](#a-page-of-words) [out](https://example.org)", "",
            "<!-- test: steps=3 fixture=iris writes=made/*.txt prints='--steps 3' -->",
            "```sh", "mkdir made; touch made/a.txt; test -f iris.csv",
            "lockstep train --epochs 4 --lr=1 --steps=9", "```", "",
            "<!-- not run: needs a thing -->", "```sh", "false", "```",
            "```text", "false", "```")
        self.assertEqual(code, 0, output)
        self.assertIn("1 blocks run", output)
        self.assertIn("needs a thing", output)

    def test_a_command_that_fails_anywhere(self):
        self.expect_found("exit code 1", "```sh", "false", "true", "```")
        self.expect_found("exit code 1", "```sh", "false | cat", "```")
        self.expect_found("exit code 0", "<!-- test: exit=2 -->", "```sh", "true", "```")

    def test_an_exit_code_is_that_of_one_command(self):
        self.expect_found("needs a block of one command", "<!-- test: exit=2 -->", "```sh", "true",
                          "exit 2", "```")
        code, output = self.run_on("<!-- test: exit=2 -->", "```sh", "# words", "", "exit \\", "  2",
                                   "```")
        self.assertEqual(code, 0, output)

    def test_what_takes_too_long_is_ended_with_all_it_started(self):
        with tempfile.TemporaryDirectory() as name, \
                mock.patch.multiple(run_document, TIMEOUT_S=1, PATIENCE_S=1):
            for i, deaf in enumerate(("", "trap '' TERM; ")):
                number = pathlib.Path(name) / str(i)
                self.expect_found("took longer than 1 s", "```sh", "echo begun",
                                  f"({deaf}echo $BASHPID > {number}; sleep 77; sleep 78) | cat", "```")
                process = pathlib.Path("/proc") / number.read_text().strip()
                end = time.monotonic() + 5
                while process.exists() and ") Z " not in (process / "stat").read_text():
                    self.assertLess(time.monotonic(), end, "it still runs")
                    time.sleep(0.02)

    def test_what_is_promised_and_does_not_come(self):
        self.expect_found("did not write a.txt", "<!-- test: writes=a.txt -->", "```sh", "true", "```")
        self.expect_found("did not print 'b'", "<!-- test: prints=b -->", "```sh", "echo a", "```")

    def test_annotations_that_mean_nothing(self):
        self.expect_found("needs a reason", "<!-- not run: -->", "```sh", "true", "```")
        self.expect_found("'stepps=3'", "<!-- test: stepps=3 -->", "```sh", "true", "```")
        self.expect_found("no fixture 'x'", "<!-- test: fixture=x -->", "```sh", "true", "```")
        self.expect_found("belongs to no", "<!-- test: steps=3 -->", "words", "```sh", "true", "```")
        self.expect_found("does not end", "```sh", "true")


class CheckLinks(unittest.TestCase):
    def findings(self, *lines):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name).resolve()
            (root / "docs").mkdir()
            (root / "docs/other.md").write_text("# A Page: of `words`\n```sh\n# no heading\n```\n")
            (root / "README.md").write_text("\n".join(lines) + "\n")
            return list(check_links.findings(root))

    def test_nothing_wrong(self):
        self.assertEqual(self.findings(
            "# Here", "[a](docs/other.md#a-page-of-words) [b](#here) [c](https://example.org) `[N, C]`",
            "`docs/other.md` Note [A note] (see (docs)) `core/ops/square.h`", "```text", "[d](no.md)",
            "```"), [])

    def test_a_link_to_no_file_and_to_no_heading(self):
        self.assertEqual(self.findings("", "[a](no.md)"), ["README.md:2: no.md leads nowhere"])
        self.assertIn("other.md#no", self.findings("[a](docs/other.md#no)")[0])
        self.assertIn("#no-heading", self.findings("[a](docs/other.md#no-heading)")[0])
        self.assertIn("../x", self.findings("[a](../x)")[0])

    def test_a_link_that_is_not_one(self):
        self.assertIn("(docs/other.md)", self.findings("[other.md] has it(docs/other.md)")[0])
        self.assertIn("(../a/b.h)", self.findings("see (../a/b.h)")[0])

    def test_a_file_that_is_not_there(self):
        self.assertIn("core/no.cpp", self.findings("`core/no.cpp` does it")[0])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
