#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Documents with something wrong in them: run_document.py finds it.

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

    def test_dead_links(self):
        self.expect_found("dead link no.md", "[a](no.md)")
        self.expect_found("dead link page.md#no", "# Yes", "[a](page.md#no)")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
