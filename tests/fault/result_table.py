#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of play_faults.py, of verdicts that no fault was played for."""
import unittest

from play_faults import table_line
from verdict import Verdict


class ResultTable(unittest.TestCase):
    ROW = (7, "a fault", None)

    def test_a_run_that_did_not_end_has_no_exit_code(self):
        verdicts = [Verdict("a", 2, code=5), Verdict("b", 2, wrong=["it did not end"]),
                    Verdict("c", 4, code=1)]
        line = table_line(self.ROW, verdicts)
        self.assertIn("1,5,none", line)
        self.assertIn("2/3 RED", line)

    def test_nothing_played(self):
        line = table_line(self.ROW, [Verdict("a", 2, not_played="no root")])
        self.assertIn("1 not played", line)


if __name__ == "__main__":
    unittest.main()
