#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that are killed while others wait for them inside NCCL, which is played.

killed_ranks.py PROGRAM MPIEXEC
"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

RANKS = 3
LIMIT_S = 60  # far more than anything here may take
COLLECTIVE_TIMEOUT = 5
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "OMPI_MCA_hwloc_base_binding_policy": "none",
               "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
               "PRTE_MCA_hwloc_default_binding_policy": "none",
               "OMPI_MCA_mpi_yield_when_idle": "1"}


class KilledRanks(unittest.TestCase):
    program, mpiexec = None, None

    def play(self, moment, killed):
        with tempfile.TemporaryDirectory() as name:
            command = [self.mpiexec, "-np", str(RANKS), self.program, moment, str(killed), name]
            captures = {"LOCKSTEP_GRAPH": "nccl"} if moment == "replay" else {}
            run = subprocess.Popen(command, env={**os.environ, **ENVIRONMENT, **captures}, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, start_new_session=True)
            try:
                said, _ = run.communicate(timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)
                self.fail(f"{moment}: the other ranks wait: {run.communicate()[0]}")
            self.assertIn(run.returncode, (COLLECTIVE_TIMEOUT, 137), said)  # who mpirun saw first
            for rank in set(range(RANKS)) - {killed}:
                record = pathlib.Path(name) / f"record_{rank}"
                self.look_at(record, killed, f"{moment}: rank {rank}: {said}")

    def look_at(self, record, killed, words):
        self.assertTrue(record.exists(), words)
        fault = json.loads(record.read_text())["fault"]
        self.assertEqual(fault["rank"], killed, words)
        self.assertEqual(fault["host"], socket.gethostname(), words)
        self.assertIn("died", fault["cause"], words)
        self.assertEqual(fault["exit_code"], COLLECTIVE_TIMEOUT, words)

    def test_while_ranks_join(self):
        self.play("join", 1)

    def test_in_a_collective(self):
        for killed in (1, 0):
            self.play("eager", killed)

    def test_between_graphs(self):
        for killed in (2, 0):
            self.play("between", killed)

    def test_in_a_replay(self):
        for killed in (2, 0):
            self.play("replay", killed)


if __name__ == "__main__":
    KilledRanks.program, KilledRanks.mpiexec = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
