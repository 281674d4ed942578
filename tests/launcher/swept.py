#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep sweep` as a user runs it.

swept.py PROGRAM SweepUsage|SweepRuns|SweepStops
"""
import csv
import json
import signal
import subprocess
import time

from program_test import ProgramTest, clean_environment, main

FLAGS = ("--model=mlp", "--hidden=8", "--global-batch=16", "--micro-batch=4", "--ranks=1", "--val-fraction=0.2")


class SweepTest(ProgramTest):
    def sweep_command(self, *flags, out="out"):
        given = [str(flag) for flag in flags]
        data = [] if any(flag.startswith("--vary=data") for flag in given) else [f"--data=csv:{self.table}"]
        return [self.program, "sweep", f"--out={out}", *data, *FLAGS, *given]

    def sweep(self, *flags, **options):
        return self.run_command(self.sweep_command(*flags, out=options.pop("out", "out")), **options)

    def result(self, out="out"):
        return json.loads((self.folder / out / "sweep.json").read_text())

    def summary(self, run, out="out"):
        return json.loads((self.folder / out / run["folder"] / "summary.json").read_text())

    def bits(self, out="out"):
        return {run["folder"]: self.summary(run, out)["weights_sha256"] for run in self.result(out)["runs"]}


class SweepUsage(SweepTest):
    def test_refusals(self):
        for flags, words in (
                ([], ["--vary"]), (["--vary=lr"], ["SETTING=VALUES"]), (["--vary=lr=0.1,0.1"], ["twice"]),
                (["--vary=lr=0.1,"], ["empty"]), (["--vary=lr=log:0..1"], ["positive"]),
                (["--vary=lr=uniform:1..0"], ["smaller"]), (["--vary=lr=log:1e-3..1"], ["--random"]),
                (["--vary=momentum=0,0.9", "--random=3"], ["2 different"]),
                (["--vary=lr=0.1,much"], ["lr=much", "--lr"]), (["--vary=rl=1,2"], ["rl=1", "unknown flag"]),
                (["--vary=lr=0.1,0.2", "--vary=lr=0.3,0.4"], ["twice"]),
                (["--vary=lr=0.1,0.2", "--lr=0.3"], ["--lr", "varied"]),
                (["--vary=lr=0.1,0.2", "--resume=auto"], ["--resume"]), (["--vary=out=a,b"], ["out"]),
                (["--vary=device=cuda,cpu", "--at-once=2"], ["cuda", "cpu"]),
                (["--vary=lr=0.1,0.2", "--at-once=4000"], ["--at-once"]),
                (["--vary=precision=fp32,fp7"], ["precision=fp7", "--precision"]),
                (["--vary=lr=0.1,0.2", "--metric=accuracy"], ["--metric"])):
            self.expect_error(self.sweep(*flags), 2, *words)
        self.assertFalse((self.folder / "out").exists(), "a refused start made a folder")
        self.expect_error(self.run_command([self.program, "sweep", "--vary=lr=1,2"]), 2, "--out")
        as_rank = self.sweep("--vary=lr=0.1,0.2", environment={
            "OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "0"})
        self.expect_error(as_rank, 3, "itself started as a rank")
        self.assertEqual(self.run_command([self.program, "sweep", "--help"]).returncode, 0)

    def test_what_is_there_is_kept(self):
        precious = self.write("out/precious", "yes")
        self.expect_error(self.sweep("--vary=lr=0.1,0.2", "--steps=2"), 2, "holds no sweep")
        self.assertEqual(precious.read_text(), "yes")
        self.write("removed/sweep.json", "{")
        self.assertNotEqual(self.sweep("--vary=lr=0.1,0.2", "--steps=2", out="removed").returncode, 0)
        (self.folder / "removed/sweep.json").unlink()
        self.assertEqual(self.sweep("--vary=lr=0.1,0.2", "--steps=2", out="removed").returncode, 0)
        for text in ("{", '{"format":1,"runs":[{}]}', '{"format":1,"arguments":[],"runs":3}', "[]"):
            self.write("damaged/sweep.json", text)
            result = self.sweep("--vary=lr=0.1,0.2", "--steps=2", out="damaged")
            self.assertIn(result.returncode, (1, 2), result.stderr)
            self.assertIn("sweep.json", result.stderr)


class SweepRuns(SweepTest):
    def test_runs_are_those_of_train_and_compared(self):
        flags = ("--vary=lr=0.001,0.3", "--vary=momentum=0,0.9", "--steps=40")
        done = self.sweep(*flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        runs = self.result()["runs"]
        self.assertEqual([tuple(run["settings"].values()) for run in runs],
                         [("0.001", "0"), ("0.001", "0.9"), ("0.3", "0"), ("0.3", "0.9")])
        losses = {run["folder"]: self.summary(run)["val_loss"] for run in runs}
        self.assertEqual({run["folder"]: run["val_loss"] for run in runs}, losses)
        self.assertEqual(self.result()["best"], min(losses, key=losses.get))
        table = (self.folder / "out/sweep.txt").read_text().splitlines()
        self.assertEqual([float(line.split()[2]) for line in table[1:]],
                         sorted(float(f"{loss:.5g}") for loss in losses.values()))
        with (self.folder / "out/sweep.csv").open() as file:
            self.assertEqual([float(row["val_loss"]) for row in csv.DictReader(file)], list(losses.values()))
        self.assertIn("<html", (self.folder / "out/report.html").read_text())
        alone = self.train("--out=alone", "--lr=0.3", "--momentum=0.9", "--steps=40", *FLAGS)
        self.assertEqual(alone.returncode, 0, alone.stderr)
        self.assertEqual(json.loads((self.folder / "alone/summary.json").read_text())["weights_sha256"],
                         self.bits()["runs/lr=0.3_momentum=0.9"])
        # Side by side they end with the same weights; started again nothing runs.
        self.assertEqual(self.sweep(*flags, "--at-once=2", out="both").returncode, 0)
        self.assertEqual(self.bits("both"), self.bits())
        before = {path: path.stat().st_mtime_ns for path in (self.folder / "out/runs").glob("*/summary.json")}
        self.assertEqual(self.sweep(*flags, "--metric=val_accuracy").returncode, 0)
        self.assertEqual(before, {path: path.stat().st_mtime_ns for path in before})

    def test_a_failed_run_is_named_and_the_others_go_on(self):
        result = self.sweep(f"--vary=data=csv:nowhere.csv,csv:{self.table}", "--steps=3")
        self.assertEqual(result.returncode, 1, result.stderr)
        bad, good = self.result()["runs"]
        self.assertEqual((bad["state"], good["state"]), ("failed", "done"))
        self.assertIn("nowhere.csv", bad["error"])
        self.assertIn("nowhere.csv", result.stdout)

    def test_seeds_are_one_line_and_more_draws_add_runs(self):
        self.assertEqual(self.sweep("--vary=seed=1,2,3", "--vary=lr=0.1,0.2", "--steps=5").returncode, 0)
        table = (self.folder / "out/sweep.txt").read_text().splitlines()
        self.assertEqual(len(table), 3)
        for line in table[1:]:
            self.assertEqual(line.split()[3], "3")
        flags = ("--vary=lr=log:1e-4..1", "--vary=hidden=whole:4..9", "--steps=2")
        few = self.run_command([flag for flag in self.sweep_command(*flags, "--random=2", out="drawn")
                                if flag != "--hidden=8"])
        self.assertEqual(few.returncode, 0, few.stderr)
        first = [run["settings"] for run in self.result("drawn")["runs"]]
        for settings in first:
            self.assertTrue(1e-4 <= float(settings["lr"]) <= 1 and 4 <= int(settings["hidden"]) <= 9, settings)
        more = self.run_command([flag for flag in self.sweep_command(*flags, "--random=4", out="drawn")
                                 if flag != "--hidden=8"])
        self.assertEqual(more.returncode, 0, more.stderr)
        self.assertIn("2 of them done before", more.stdout)
        self.assertEqual([run["settings"] for run in self.result("drawn")["runs"]][:2], first)


class SweepStops(SweepTest):
    def begin(self, *flags):
        """The process, once a run of it makes steps."""
        def written():
            return sum(path.stat().st_size for path in (self.folder / "out/runs").glob("*/metrics.jsonl"))

        before = written()
        process = subprocess.Popen(self.sweep_command(*flags), cwd=self.folder, env=clean_environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        end = time.monotonic() + 60
        while written() <= before:
            self.assertLess(time.monotonic(), end, "no run began")
            self.assertIsNone(process.poll(), "it ended before it was to be stopped")
            time.sleep(0.02)
        return process

    def test_stopped_and_killed_sweeps_go_on(self):
        flags = ("--vary=lr=0.01,0.02,0.03", "--steps=60000", "--checkpoint-every=1000", "--log-every=100")
        whole = self.sweep(*flags, out="whole")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        for stop, code in ((signal.SIGTERM, 75), (signal.SIGINT, 75), (signal.SIGKILL, -9)):
            process = self.begin(*flags)
            process.send_signal(stop)
            text = process.communicate(timeout=60)[0]
            self.assertEqual(process.returncode, code, text)
        # What a killed one has left ends by itself, with a checkpoint.
        end = time.monotonic() + 60
        while (again := self.sweep(*flags)).returncode == 3 and time.monotonic() < end:
            time.sleep(0.2)
        self.assertEqual(again.returncode, 0, again.stderr + again.stdout)
        self.assertEqual(self.bits(), self.bits("whole"))


if __name__ == "__main__":
    main()
