#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks of `lockstep run` that outlive the death of another one, where MPI has ULFM (Open MPI 5). Where it has not, the
same runs start all ranks again, and come to the same weights.

survivors.py PROGRAM Survivors
"""
import json
import os
import pathlib
import shutil
import signal
import time

from elastic import ElasticTest
from program_test import main
from supervised import FLAGS


class Survivors(ElasticTest):
    def setUp(self):
        super().setUp()
        linked = b"MPIX_Comm_shrink" in pathlib.Path(self.program).read_bytes()
        self.outlive = linked and "(Open MPI) 4" not in self.run_command(["mpirun", "--version"]).stdout

    def kill(self, *victims, start=1, ranks="1:4", hosts=("--hosts=localhost:4",), flags=(), how=signal.SIGKILL):
        """A run on four ranks, some of which are killed by their number. Returns it and its processes before."""
        process = self.start_elastic(ranks, *hosts, "--snapshot-every=0.05s", *flags)
        self.await_training(start)
        pids = self.by_rank(self.await_ranks(4))
        self.await_text("step 100/")
        for victim in victims:
            os.kill(pids[victim], how)
        return process, pids

    @staticmethod
    def by_rank(pids):
        def rank(pid):
            with open(f"/proc/{pid}/environ", "rb") as file:
                return int(dict(v.split(b"=", 1) for v in file.read().split(b"\0") if b"=" in v)[b"OMPI_COMM_WORLD_RANK"])
        return sorted(pids, key=rank)

    def faults(self):
        lines = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        return [(line["restart"], line["survivors"]) for line in lines if "fault" in line]

    def continue_on_all(self, process):
        """Until all ranks train again, then to the end."""
        self.await_text("starting 4 ranks", times=2)
        self.await_that(lambda: len(self.ranks()) == 4, "not four ranks again")
        steps = self.texts()[0].count("  loss ")
        self.await_that(lambda: self.texts()[0].count("  loss ") > steps + 1, "no steps on four ranks")
        done = self.stop(process)
        self.expect_bits_of_one_start(done)

    def host_of(self, pid):
        """Of make_ssh()'s."""
        with open(f"/proc/{pid}/environ", "rb") as file:
            return next((v.decode().rpartition("tmp_")[2] for v in file.read().split(b"\0") if v.startswith(b"TMPDIR=")), "")

    def outlive_each(self, victims, hosts, left_on=("",)):
        for victim in victims:
            with self.subTest(victim=victim):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                shutil.rmtree(self.folder / "undisturbed", ignore_errors=True)
                process, pids = self.kill(victim, hosts=hosts)
                self.await_text("restart 1")
                if self.outlive:
                    left = sorted(set(pids) - {pids[victim]})
                    self.await_that(lambda: self.texts()[0].count("(source:") >= 2, "the ranks that are left do not train")
                    self.assertEqual(self.ranks(), left)
                    self.assertEqual({self.host_of(pid) for pid in left}, set(left_on))
                    self.assertIn("3 of 4 ranks are left, and continue", self.texts()[1])
                    self.await_text("3 of 4 ranks are left: they stop with a checkpoint, and all continue")
                self.continue_on_all(process)
                self.assertEqual(self.faults(), [(1, 3 if self.outlive else 0)])
                self.assertIn("1 restarts", self.texts()[0])

    def test_ranks_go_on_without_one_that_died(self):
        self.outlive_each((2, 0), ["--hosts=localhost:4"])

    def test_ranks_of_several_hosts_go_on_without_one_that_died(self):
        self.outlive_each((2, 0), ["--hosts=hosta:2,hostb:2", f"--ssh={self.make_ssh()}"], left_on=("hosta", "hostb"))

    def test_a_rank_that_is_alone_on_its_host(self):
        self.outlive_each((3,), ["--hosts=hosta:3,hostb:1", f"--ssh={self.make_ssh()}"], left_on=("hosta",))

    def test_a_frozen_rank_is_killed(self):
        process, _ = self.kill(2, flags=["--timeout=3"], how=signal.SIGSTOP)
        self.continue_on_all(process)
        self.assertEqual(self.faults(), [(1, 3 if self.outlive else 0)])
        lines = (self.folder / "run/metrics.jsonl").read_text().splitlines()
        fault = next(json.loads(line)["fault"] for line in lines if "fault" in line)
        self.assertIn("frozen" if self.outlive else "no sign of life", fault)

    def test_two_that_die_at_once(self):
        process, _ = self.kill(0, 3)
        self.continue_on_all(process)
        self.assertIn(self.faults()[-1], [(1, 2), (2, 2), (2, 0)] if self.outlive else [(1, 0)])

    def test_all_that_die_at_once(self):
        """mpirun may take that for a success."""
        process, pids = self.kill(flags=["--steps=190"])
        for number in (signal.SIGSTOP, signal.SIGKILL):  # so that none sees another one end
            for pid in pids:
                os.kill(pid, number)
        self.assertEqual(self.finish(process), 0, self.texts())
        self.assertEqual(self.faults(), [(1, 0)])
        result = self.train(*FLAGS, "--steps=190", "--out=undisturbed")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.summary()["weights_sha256"], self.summary("undisturbed")["weights_sha256"])

    def test_a_rank_that_dies_while_the_ranks_start(self):
        for pause_s in (0, 0.15):
            with self.subTest(pause_s=pause_s):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                process = self.start_elastic("1:4", "--hosts=localhost:4", "--timeout-start=10", "--steps=20")
                victim = self.await_that(self.ranks, "no rank")[0]
                time.sleep(pause_s)
                os.kill(victim, signal.SIGKILL)
                self.assertEqual(self.finish(process), 0, self.texts())
                self.assertIn("1 restarts", self.texts()[0])

    def test_a_stop_while_the_ranks_start(self):
        for pause_s in (0, 0.1, 0.2, 0.4):
            with self.subTest(pause_s=pause_s):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                process = self.start_elastic("1:4", "--hosts=localhost:4", "--grace=1000")
                self.await_text("starting 4 ranks")
                time.sleep(pause_s)
                process.send_signal(signal.SIGTERM)
                self.assertEqual(self.finish(process), 75, self.texts())

    def test_ranks_that_are_left_come_to_the_end(self):
        process, _ = self.kill(1, flags=["--steps=140"])
        self.assertEqual(self.finish(process), 0, self.texts())
        self.assertEqual(self.faults(), [(1, 3 if self.outlive else 0)])
        result = self.train(*FLAGS, "--steps=140", "--out=undisturbed")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.summary()["weights_sha256"], self.summary("undisturbed")["weights_sha256"])

    def test_a_run_that_began_elsewhere(self):
        """Before anything of it is saved, only a new start finds what it began from."""
        result = self.train(*FLAGS, "--lr=0.05", "--steps=50", "--out=other")
        self.assertEqual(result.returncode, 0, result.stderr)
        process, _ = self.kill(1, flags=["--resume=other", "--resume-override", "--snapshot-every=0", "--steps=190"])
        self.assertEqual(self.finish(process), 0, self.texts())
        self.assertEqual(self.faults(), [(1, 0)])
        result = self.train(*FLAGS, "--resume=other", "--resume-override", "--steps=190", "--out=undisturbed")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.summary()["weights_sha256"], self.summary("undisturbed")["weights_sha256"])

    def test_fewer_than_min_are_started_again(self):
        process, _ = self.kill(1, ranks="4:4")
        self.continue_on_all(process)
        self.assertEqual(self.faults(), [(1, 0)])


if __name__ == "__main__":
    main()
