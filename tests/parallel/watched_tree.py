#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks under mpirun that are a tree of watchdogs, of which one is killed or stopped.

watched_tree.py PROGRAM MPIEXEC [EMULATOR...]

The tree of eight ranks of a host: 0 has 1 and 2; 1 has 3 and 4; 2 has 5 and 6; 3 has 7. Rank 6 takes
100 ms for its record: the others have to wait, since mpirun kills what is left once two have ended.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

RANKS = 8
LIMIT_S = 60  # far more than anything here may take
COLLECTIVE_TIMEOUT = 5
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "OMPI_MCA_hwloc_base_binding_policy": "none",
               "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
               "PRTE_MCA_hwloc_default_binding_policy": "none",
               "OMPI_MCA_mpi_yield_when_idle": "1"}


def lives(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class WatchedTree(unittest.TestCase):
    program, mpiexec = None, None  # the first with the emulator in front, where ranks are of another processor

    def play(self, fault, rank, timeout_s):
        """Seconds until no other rank lives, and what was said."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            command = [self.mpiexec, "-np", str(RANKS), *self.program, name, str(timeout_s)]
            run = subprocess.Popen(command, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, start_new_session=True)
            try:
                processes = self.processes(run, folder)
                time.sleep(0.3)
                start = time.monotonic()
                os.kill(processes[rank], fault)
                others = [process for r, process in enumerate(processes) if r != rank]
                while any(map(lives, others)) and time.monotonic() < start + LIMIT_S:
                    time.sleep(0.01)
                seconds = time.monotonic() - start
                said, _ = run.communicate(timeout=LIMIT_S)
            finally:
                if run.poll() is None:
                    os.killpg(run.pid, signal.SIGKILL)
                    run.wait()
            for r in set(range(RANKS)) - {rank}:
                record = folder / f"record_{r}"
                self.assertTrue(record.exists(), f"rank {r} has no record: {said}")
                fault_record = json.loads(record.read_text())["fault"]
                self.assertEqual(fault_record["rank"], rank, f"of rank {r}: {said}")
                self.assertEqual(fault_record["exit_code"], COLLECTIVE_TIMEOUT, said)
            self.assertEqual(said.count("] error: "), 1, said)
            self.assertIn(f"[rank {rank} ", said)
            return seconds

    def processes(self, run, folder):
        deadline = time.monotonic() + LIMIT_S
        while len(list(folder.glob("process_*"))) < RANKS:
            self.assertLess(time.monotonic(), deadline, "the ranks do not come together")
            self.assertIsNone(run.poll())
            time.sleep(0.01)
        return [int((folder / f"process_{r}").read_text()) for r in range(RANKS)]

    def test_the_death_of_root_inner_rank_and_leaf(self):
        for rank in (0, 1, 7):
            seconds = self.play(signal.SIGKILL, rank, 10)
            print(f"rank {rank} killed: {seconds:.2f} s")
            self.assertLess(seconds, 2)

    def test_the_freeze_of_an_inner_rank(self):
        seconds = self.play(signal.SIGSTOP, 1, 2)
        print(f"rank 1 stopped: {seconds:.2f} s")
        self.assertLess(seconds, 2 + 3)


if __name__ == "__main__":
    program, WatchedTree.mpiexec, *emulator = sys.argv[1:]
    WatchedTree.program = [*emulator, program]
    unittest.main(argv=sys.argv[:1])
