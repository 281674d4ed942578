#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks on emulated GPUs that outlive one that is killed inside NCCL, which is played.

surviving_ranks.py PROGRAM MPIEXEC

Exit code 77, for CTest's SKIP_RETURN_CODE, where this MPI has no ULFM.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from killed_ranks import ENVIRONMENT

RANKS = 3
LIMIT_S = 120  # far more than anything here may take
SKIPPED = 77
# The ranks have one device, which works when it is waited for, as a GPU may; a rank less may be there at the end.
VARIABLES = {"LOCKSTEP_NCCL": "shared", "LOCKSTEP_SURVIVORS": "2:0", "EMULATED_STREAMS": "late"}


class SurvivingRanks(unittest.TestCase):
    program, mpiexec = None, None

    def play(self, moment, killed=-1):
        """Ranks at the end, and their weights."""
        with tempfile.TemporaryDirectory() as folder:
            command = [self.mpiexec, "--with-ft", "ulfm", "-np", str(RANKS), self.program, moment, str(killed), folder]
            captures = {"LOCKSTEP_GRAPH": "nccl"} if moment == "replay" else {}
            run = subprocess.Popen(command, env={**os.environ, **ENVIRONMENT, **VARIABLES, **captures},
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
            try:
                said, _ = run.communicate(timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)
                self.fail(f"{moment}: ranks wait: {run.communicate()[0]}")
            self.assertEqual(run.returncode, 0, said)
            end = re.search(r"^(\d) ranks from step (\d+), weights (\w{64})$", said, re.MULTILINE)
            self.assertIsNotNone(end, said)
            if killed >= 0:
                self.assertGreater(int(end[2]), 0, said)
                self.assertIn(f"rank {killed}", said)
                self.assertIn("are left, and continue", said)
            return int(end[1]), end[3]

    def look_at(self, moment, *killed):
        for rank in killed:
            self.assertEqual(self.play(moment, rank), (RANKS - 1, self.undisturbed()), f"{moment}, rank {rank}")

    def undisturbed(self):
        if not hasattr(SurvivingRanks, "weights"):
            ranks, SurvivingRanks.weights = self.play("undisturbed")
            self.assertEqual(ranks, RANKS)
        return SurvivingRanks.weights

    def test_in_a_collective(self):
        self.look_at("eager", 1, 0)

    def test_with_a_sharded_optimizer(self):
        self.look_at("sharded", 2, 0)

    def test_between_graphs(self):
        self.look_at("between", 2, 0)

    def test_in_a_replay(self):
        self.look_at("replay", 2, 0)


if __name__ == "__main__":
    SurvivingRanks.program, SurvivingRanks.mpiexec = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as nowhere:
        if subprocess.run([sys.argv[1], "undisturbed", "-1", nowhere], env={**os.environ, **VARIABLES}, check=False,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == SKIPPED:
            sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
