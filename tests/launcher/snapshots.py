#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots in memory, between the checkpoints of a run that `lockstep run` supervises.

snapshots.py PROGRAM Snapshots
"""
import json
import os
import pathlib
import re
import signal

from program_test import TIMEOUT_S, main
from supervised import STEPS, SupervisedTest, processes_with


class Snapshots(SupervisedTest):
    def snapshots(self):
        """Folders in memory that this test's run has, or has left."""
        return [p.parent for p in pathlib.Path("/dev/shm").glob("lockstep-snapshots-*/run")
                if p.read_text().strip() == str(self.folder / "run")]

    def await_snapshot(self, after=-1):
        def newer():
            steps = [int(p.name[5:]) for f in self.snapshots() for p in f.glob("step_*")]
            return max(steps, default=-1) if max(steps, default=-1) > after else None
        return self.await_that(newer, "no snapshot")

    def test_a_restart_continues_from_memory(self):
        process = self.run_supervised("--checkpoint-every=100000", "--snapshot-every=0.05s")
        step = -1
        for _ in range(3):
            ranks = self.await_ranks(2)
            step = self.await_snapshot(after=step)
            self.kill_rank(ranks)
        self.assertEqual(self.finish(process), 0, self.texts())
        out = self.texts()[0]
        self.assertEqual(out.count("snapshot in memory"), 3, out)
        self.assertGreater(self.summary()["snapshots"], 0)
        lines = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        faults = [line for line in lines if "fault" in line]
        self.assertEqual([fault["restart"] for fault in faults], [1, 2, 3])
        for fault in faults:
            self.assertIn("signal 9", fault["fault"])
            self.assertGreater(fault["start_s"], 0)
            self.assertLess(fault["seconds"], TIMEOUT_S)
            self.assertLess(fault["lost_steps"], STEPS)
        status = json.loads(self.run_command([self.program, "status", "run", "--json"]).stdout)
        self.assertEqual((status["state"], status["faults"], status["step"]), ("complete", 3, STEPS))
        report = self.run_command([self.program, "report", "run", "--csv=run.csv"])
        self.assertEqual(report.returncode, 0, report.stderr)
        self.assertEqual(sum("fault" in line.split(",")[:2] for line in
                             (self.folder / "run.csv").read_text().splitlines()), 3)
        self.assertEqual(self.summary()["weights_sha256"], self.undisturbed())
        self.assertEqual(self.snapshots(), [], "memory is not given back")

    def test_snapshots_of_a_run_that_was_killed_with_its_supervisor(self):
        process = self.run_supervised("--checkpoint-every=100000", "--snapshot-every=0.05s")
        self.await_ranks(2)
        step = self.await_snapshot()
        for pid in processes_with(str(self.folder / "run")):
            os.kill(pid, signal.SIGKILL)
        process.wait()
        self.await_that(lambda: not processes_with(str(self.folder / "run")), "processes are left")
        self.assertEqual(len(self.snapshots()), 1)
        self.assertEqual(self.finish(self.run_supervised("--checkpoint-every=100000")), 0, self.texts())
        resumed = int(re.search(r"snapshot in memory, .*, (\d+) steps done", self.texts()[0])[1])
        self.assertGreaterEqual(resumed, step)
        self.assertEqual(self.summary()["weights_sha256"], self.undisturbed())
        self.assertEqual(self.snapshots(), [])

    def test_what_only_memory_holds_is_saved_at_the_end(self):
        process = self.run_supervised("--checkpoint-every=100000", "--snapshot-every=0.05s", "--max-restarts=0")
        ranks = self.await_ranks(2)
        step = self.await_snapshot()
        status = json.loads(self.run_command([self.program, "status", "run", "--json"]).stdout)
        self.assertEqual((status["state"], status["ranks"], status["checkpoint"]), ("running", 2, -1))
        self.assertGreaterEqual(status["snapshot"], step)
        self.kill_rank(ranks)
        self.assertEqual(self.finish(process), 137, self.texts())
        self.assertGreaterEqual(self.await_checkpoint(), step)
        self.assertEqual(self.snapshots(), [])
        self.assertEqual(self.finish(self.run_supervised()), 0, self.texts())
        self.assertEqual(self.summary()["weights_sha256"], self.undisturbed())


if __name__ == "__main__":
    main()
