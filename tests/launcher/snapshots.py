#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots in memory, between the checkpoints of a run that `lockstep run` supervises.

snapshots.py PROGRAM Snapshots
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal

from program_test import TIMEOUT_S, main
from supervised import FLAGS, STEPS, SupervisedTest, processes_with


class Snapshots(SupervisedTest):
    def snapshots(self):
        """The folder in memory that this test's run has, or has left: at most one."""
        try:
            folder = (self.folder / "run/.snapshots").read_text().split("\n")[0]
        except OSError:
            return []
        return [pathlib.Path(folder)] if pathlib.Path(folder).is_dir() else []

    def tearDown(self):
        for folder in self.snapshots():
            shutil.rmtree(folder, ignore_errors=True)
        super().tearDown()

    def await_snapshot(self, after=-1):
        def newer():
            steps = [int(p.name[5:]) for f in self.snapshots() for p in f.glob("step_*")]
            return max(steps, default=-1) if max(steps, default=-1) > after else None
        return self.await_that(newer, "no snapshot")

    def expect_planned_size(self):
        """The newest one has the bytes of `lockstep plan`, and the heads of its files."""
        newest = max(self.snapshots()[0].glob("step_*"))
        files = [path.stat().st_size for path in newest.glob("*.safetensors")]
        planned = self.planned("--data", f"csv:{self.table}", *FLAGS, "--ranks=2")["state_bytes"]
        self.assertGreaterEqual(sum(files), planned)
        self.assertLess(sum(files), planned + len(files) * 8192)

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
            self.assertGreaterEqual(fault["lost_steps"], 0)
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
        # The run is named by where it writes, then by what it resumes.
        for named, out in ((f"--out={self.folder}/run/", True), (f"--resume={self.folder}/run", False)):
            shutil.rmtree(self.folder / "run", ignore_errors=True)
            process = self.run_supervised("--checkpoint-every=100000", "--snapshot-every=0.05s")
            self.await_ranks(2)
            step = self.await_snapshot()
            pids = processes_with(str(self.folder / "run"))
            for number in (signal.SIGSTOP, signal.SIGKILL):  # so that none sees another one end
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
            process.wait()
            self.await_that(lambda: not processes_with(str(self.folder / "run")), "processes are left")
            self.assertEqual(len(self.snapshots()), 1)
            self.expect_planned_size()
            process = self.start("run", "--ranks=2", "--checkpoint-every=100000", named, out=out)
            self.assertEqual(self.finish(process), 0, self.texts())
            resumed = int(re.search(r"snapshot in memory, .*, (\d+) steps done", self.texts()[0])[1])
            self.assertGreaterEqual(resumed, step)
            self.assertEqual(self.summary()["weights_sha256"], self.undisturbed())
            self.assertEqual(self.snapshots(), [])
            shutil.rmtree(self.folder / "undisturbed")

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

    def test_a_stop_in_the_pause_before_a_restart_keeps_the_snapshot(self):
        process = self.run_supervised("--checkpoint-every=100000", "--snapshot-every=0.05s", "--backoff=100")
        for _ in range(2):  # the first restart comes at once
            ranks = self.await_ranks(2)
            step = self.await_snapshot()
            self.kill_rank(ranks)
        self.await_that(lambda: "restart 2 in" in self.texts()[0], "no pause")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(process), 75, self.texts())
        self.assertGreaterEqual(self.await_checkpoint(), step)
        self.assertIn(f"resume the run from step {self.await_checkpoint()}", self.texts()[0])
        self.assertEqual(self.snapshots(), [])

    def test_a_snapshot_that_the_disk_does_not_take_stays(self):
        process = self.run_supervised("--checkpoint-every=0", "--snapshot-every=0.05s", "--max-restarts=0")
        ranks = self.await_ranks(2)
        self.await_snapshot()
        self.write("run/checkpoints", "in the way")
        self.kill_rank(ranks)
        self.assertEqual(self.finish(process), 137, self.texts())
        self.assertIn("could not be saved", self.texts()[0])
        self.assertEqual(len(self.snapshots()), 1, "the only copy is gone")
        (self.folder / "run/checkpoints").unlink()
        self.assertEqual(self.finish(self.run_supervised()), 0, self.texts())
        self.assertIn("snapshot in memory", self.texts()[0])
        self.assertEqual(self.summary()["weights_sha256"], self.undisturbed())

    def test_ranks_that_differ_do_not_resume_from_memory(self):
        # A start plays the fault again, unless it begins after it.
        process = self.start("run", "--ranks=2", "--checkpoint-every=100000", "--snapshot-every=0.05s",
                             "--check-replicas-every=1000", "--max-restarts=1",
                             environment={"LOCKSTEP_FAULT": "rank=1,step=300,do=flip-weight"})
        self.assertEqual(self.finish(process), 6, self.texts())
        out = self.texts()[0]
        self.assertEqual(out.count("they are dropped"), 2, out)
        self.assertNotIn("snapshot in memory", out)
        self.assertFalse((self.folder / "run/checkpoints").exists(), "what may be damaged was saved")


if __name__ == "__main__":
    main()
