#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep scale` and `lockstep bench` as a user runs them.

scaled.py PROGRAM ScaleUsage|ScaleRanks|Bench
"""
import csv
import json
import os
import pathlib
import re
import signal
import subprocess
import time

from program_test import ProgramTest, clean_environment, csv_text, main
from supervised import processes_with

FLAGS = ("--model=mlp", "--hidden=32", "--global-batch=16", "--micro-batch=4", "--repeats=1",
         "--steps=12")
FILES = ("scale.txt", "scale.md", "scale.csv", "scale.json", "scale.html")


class ScaleTest(ProgramTest):
    def scale_command(self, *flags):
        return [self.program, "scale", f"--data=csv:{self.table}", "--out=out", *FLAGS,
                *map(str, flags)]

    def scale(self, *flags, **options):
        return self.run_command(self.scale_command(*flags), **options)

    def result(self):
        return json.loads((self.folder / "out/scale.json").read_text())


class ScaleUsage(ScaleTest):
    def test_refusals(self):
        for flags, words in ((["--ranks=1,x"], "--ranks"), ([], "--ranks 1,2,4"),
                             (["--ranks=1,8"], "8 ranks"), (["--ranks=1", "--hold-out=2"], "--hold-out"),
                             (["--ranks=1", "--mode=both"], "--mode"),
                             (["--ranks=1", "--epochs=2"], "--epochs"),
                             (["--ranks=1", "--modle=mlp"], "did you mean"),
                             (["--ranks=1", "--launcher=slurm"], "--launcher")):
            self.expect_error(self.scale(*flags), 2, words)
        self.expect_error(self.scale("--ranks=1,2", "--hosts=localhost:1,127.0.0.1:1",
                                     "--predict=4"), 2, "no network named")
        missing = self.scale("--ranks=1", "--data=csv:nowhere.csv")
        self.expect_error(missing, 1, "nowhere.csv")
        as_rank = self.scale("--ranks=1", environment={
            "OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0",
            "OMPI_COMM_WORLD_LOCAL_RANK": "0"})
        self.expect_error(as_rank, 3, "itself started as a rank")
        self.assertFalse((self.folder / "out").exists(), "a refused start made a folder")
        self.assertEqual(self.run_command([self.program, "scale", "--help"]).returncode, 0)

    def test_what_is_there_is_kept(self):
        earlier = self.write("out/scale.json", "precious")
        self.expect_error(self.scale("--ranks=1"), 2, "already exists", "--force")
        self.assertEqual(earlier.read_text(), "precious")
        self.assertEqual(self.scale("--ranks=1", "--force").returncode, 0)
        self.assertEqual(self.scale("--ranks=1", "--force").returncode, 0, "its own, once more")
        self.assertTrue(self.result()["complete"])

    def test_a_signal_while_data_is_read_ends_it(self):
        header, *rows = csv_text().splitlines(keepends=True)
        self.table.write_text(header + "".join(rows) * 80_000)  # takes two seconds
        process = subprocess.Popen(self.scale_command("--ranks=1"), cwd=self.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, env=clean_environment())
        self.addCleanup(process.kill)
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.communicate(timeout=60)[0], b"")
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertFalse((self.folder / "out").exists())


class ScaleRanks(ScaleTest):
    def test_two_ranks(self):
        result = self.scale("--ranks=1,2", "--repeats=2", "--hold-out=2", "--predict=4")
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in ("held out: strong 2 ranks", "held out: weak 2 ranks",
                      "predicted, not measured: strong 4 ranks",
                      "communication not fitted: no run with several ranks"):
            self.assertIn(words, result.stdout)
        for name in FILES:
            self.assertGreater((self.folder / "out" / name).stat().st_size, 0, name)
        self.assertEqual(list((self.folder / "out").glob("*.tmp")), [])
        summary = self.result()
        self.assertTrue(summary["complete"])
        self.assertEqual([(p["mode"], p["ranks"], p["global_batch"]) for p in summary["points"]],
                         [("strong", 1, 16), ("strong", 2, 16), ("weak", 2, 32)])
        self.assertEqual(len(summary["runs"]), 6)
        for point in summary["points"]:
            times = [run["step_ms"] for run in summary["runs"]
                     if summary["points"][run["experiment"]] is point]
            self.assertEqual(point["repeats"], 2)
            self.assertAlmostEqual(point["step_ms"]["median"], sum(times) / 2)
            self.assertEqual(point["step_ms"]["min"], min(times))
        for run in summary["runs"]:  # what scale says of a run is what the run says
            folder = self.folder / run["folder"]
            steps = [json.loads(line)["step_ms"]
                     for line in (folder / "metrics.jsonl").read_text().splitlines()
                     if "step_ms" in line]
            self.assertTrue(min(steps) <= run["step_ms"] <= max(steps))
            ranks = json.loads((folder / "summary.json").read_text())["ranks"]
            self.assertEqual(ranks, summary["points"][run["experiment"]]["ranks"])
        rows = list(csv.DictReader((self.folder / "out/scale.csv").read_text().splitlines()))
        self.assertEqual([row["ranks"] for row in rows], ["1", "2", "2"])
        self.assertEqual([row["held_out"] for row in rows], ["0", "1", "1"])
        page = (self.folder / "out/scale.html").read_text()
        data = json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', page, re.S)[1])
        charts = data["sections"][0]["blocks"][0]["charts"]
        self.assertEqual([chart["id"] for chart in charts], ["rate", "efficiency", "exposed"])
        self.assertEqual(charts[0]["x_ticks"], [1, 2, 4])

    def test_a_count_that_fails_leaves_the_others(self):
        # The table has fewer than the 64 samples of four ranks.
        result = self.scale("--ranks=1,2,4", "--mode=weak")
        self.expect_error(result, 1, "a run failed", "4 ranks, weak", "weak-4-1.log", "are kept")
        summary = self.result()
        self.assertFalse(summary["complete"])
        self.assertEqual([p["ranks"] for p in summary["points"]], [1, 2])
        failed = [run for run in summary["runs"] if "error" in run]
        self.assertEqual(len(failed), 1)
        log = (self.folder / failed[0]["log"]).read_text()
        self.assertIn("global-batch 64", log)

    def test_a_job_that_cannot_be_cancelled_is_named(self):
        for name, text in (("sbatch", "echo '42;here'\nexec sleep 300"), ("srun", "exit 1"),
                           ("scancel", "echo \"$*\" >cancelled\nexit 1")):
            self.write(f"bin/{name}", f"#!/bin/sh\n{text}\n").chmod(0o755)
        environment = clean_environment()
        environment["PATH"] = f"{self.folder}/bin:{environment['PATH']}"
        process = subprocess.Popen(self.scale_command("--ranks=2", "--launcher=sbatch"),
                                   cwd=self.folder, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                   env=environment)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 60
        while not any(job.stat().st_size for job in self.folder.glob("out/runs/*.job")):
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn(b"job 42 was not cancelled: scancel 42", stderr)
        self.assertEqual((self.folder / "cancelled").read_text(), "42\n")

    def test_a_launcher_that_hangs_after_a_silence_is_ended(self):
        # As mpirun does where a host is gone. Open MPI's own would take minutes, or for ever.
        self.write("bin/mpirun", "#!/bin/sh\n"
                   "[ \"$1\" = --version ] && { echo 'mpirun (Open MPI) 4.1.4'; exit; }\n"
                   "echo '[rank 1 b] error: no sign of life' >&2\n"
                   "exec sleep 300\n").chmod(0o755)
        environment = clean_environment()
        environment["PATH"] = f"{self.folder}/bin:{environment['PATH']}"
        begin = time.monotonic()
        result = self.scale("--ranks=2", "--mode=strong", "--hosts=localhost:2", environment=environment)
        self.assertLess(time.monotonic() - begin, 120)
        self.expect_error(result, 1, "2 ranks, strong", "exit code 5", "no sign of life")
        log = (self.folder / self.result()["runs"][0]["log"]).read_text()
        self.assertIn("no sign of life", log)
        self.assertIn("was killed", log)

    def test_an_interrupt_keeps_what_is_done(self):
        with open(self.folder / "stdout", "wb") as out:
            command = self.scale_command("--ranks=1,2", "--mode=strong", "--steps=12", "--repeats=900")
            process = subprocess.Popen(command, cwd=self.folder, stdout=out,
                                       stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                       env=clean_environment())
            self.addCleanup(process.kill)
            deadline = time.monotonic() + 120
            done = self.folder / "out/scale.json"
            while not (done.exists() and len(self.result()["runs"]) >= 2):
                self.assertLess(time.monotonic(), deadline)
                self.assertIsNone(process.poll())
                time.sleep(0.05)
            process.send_signal(signal.SIGSTOP)  # holds its lock, and writes nothing
            second = self.scale("--ranks=1", "--force")
            self.assertEqual(second.returncode, 3, second.stderr)
            self.assertTrue(done.exists(), "removed by a start that was refused")
            self.assertGreaterEqual(len(self.result()["runs"]), 2)
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn(b"stopped by a signal", stderr)
        summary = self.result()
        self.assertFalse(summary["complete"])
        self.assertGreaterEqual(len(summary["runs"]), 2)
        self.assertEqual([run for run in summary["runs"] if "error" in run], [])


class Bench(ProgramTest):
    def bench(self, *arguments):
        result = self.run_command([self.program, "bench", *arguments, "--json"])
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_all_reduce(self):
        result = self.bench("all-reduce", "--ranks=2", "--min=100", "--max=300000", "--factor=50",
                            "--seconds=0.01")
        self.assertEqual(result["ranks"], 2)
        self.assertEqual([row["bytes"] for row in result["sizes"]], [100, 5000, 250000, 300000])
        for row in result["sizes"]:
            for kind in ("reproducible", "library"):
                self.assertEqual(row[kind]["wrong"], 0)
                self.assertGreater(row[kind]["time_us"], 0)
                self.assertAlmostEqual(row[kind]["algbw_GBps"],
                                       row["bytes"] / row[kind]["time_us"] / 1e3)
                # 2 (n - 1) / n is 1 for two ranks.
                self.assertAlmostEqual(row[kind]["busbw_GBps"], row[kind]["algbw_GBps"])
        three = self.bench("allreduce", "--ranks=3", "--min=4096", "--max=4096", "--seconds=0.01")
        row = three["sizes"][0]["reproducible"]
        self.assertAlmostEqual(row["busbw_GBps"], row["algbw_GBps"] * 4 / 3)

    def test_model(self):
        for ranks in (1, 2):
            result = self.bench("model", "--model=mlp", f"--ranks={ranks}", "--steps=4",
                                "--global-batch=64", "--micro-batch=16")
            self.assertEqual((result["ranks"], result["global_batch"]), (ranks, 64))
            self.assertAlmostEqual(result["samples_per_s"], 64 / result["step_ms"] * 1e3, places=3)
            self.assertAlmostEqual(
                result["flops_per_s"] / (result["flops_per_step"] / result["step_ms"] * 1e3), 1)
            self.assertTrue(0 < result["peak_share"] < 1, result)
            plan = json.loads(self.run_command(
                [self.program, "plan", "--json", "--model=mlp", "--global-batch=64",
                 "--micro-batch=16", f"--ranks={ranks}"]).stdout)
            self.assertEqual(result["flops_per_step"], plan["flops_per_step"])
        self.assertEqual(list(self.folder.iterdir()), [self.table], "files were written")

    def test_loader(self):
        result = self.bench("loader", "--workers=0,2", "--seconds=0.05", "--micro-batch=8")
        self.assertEqual([row["workers"] for row in result["rates"]], [0, 2])
        for row in result["rates"]:
            self.assertGreater(row["samples_per_s"], 0)
        small = self.bench("loader", f"--data=csv:{self.table}", "--workers=1", "--seconds=0.05")
        self.assertGreater(small["rates"][0]["samples_per_s"], 0)

    def start_long(self):
        """A measurement of two ranks that takes minutes, once its ranks are at work."""
        mark = f"--data=csv:{self.table}"  # in no other process's command line
        process = subprocess.Popen(
            [self.program, "bench", "model", mark, "--model=mlp", "--ranks=2", "--steps=1000000",
             "--global-batch=16", "--micro-batch=8"],
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            stdin=subprocess.DEVNULL, env=clean_environment())
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 60
        while self.busy(mark) < 2:
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), deadline, "no ranks")
            time.sleep(0.05)
        return process, mark

    @staticmethod
    def busy(mark):
        """Ranks that have computed for half a second: they are past their start."""
        ticks = []
        for pid in processes_with(mark):
            try:
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if b"OMPI_COMM_WORLD_RANK=" in environment:
                ticks.append(int(fields[11]) + int(fields[12]))
        return sum(spent > os.sysconf("SC_CLK_TCK") / 2 for spent in ticks)

    def await_nobody(self, mark):
        deadline = time.monotonic() + 5
        while (left := processes_with(mark)) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(left, [], "processes are left")

    def test_a_signal_ends_it(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            process, mark = self.start_long()
            asked = time.monotonic()
            process.send_signal(number)
            _, stderr = process.communicate(timeout=30)
            self.assertLess(time.monotonic() - asked, 10)
            self.assertEqual(process.returncode, 1, stderr)
            self.assertIn("stopped by a signal", stderr)
            self.assertNotIn("resume", stderr)
            self.await_nobody(mark)

    def test_a_killed_parent_leaves_no_ranks(self):
        process, mark = self.start_long()
        process.kill()
        process.communicate()
        self.await_nobody(mark)

    def test_refusals(self):
        for arguments, words in (([], "all-reduce, model or loader"), (["al-reduce"], "did you mean"),
                                 (["all-reduce", "--min=2MiB", "--max=1MiB"], "--min"),
                                 (["all-reduce", "--min=3"], "--min"),
                                 (["all-reduce", "--factor=1"], "--factor"),
                                 (["all-reduce", "--bogus"], "bogus"),
                                 (["model", "--steps=0"], "--steps"),
                                 (["model", "--micro-batch=auto"], "--micro-batch"),
                                 (["loader", "--workers=65"], "--workers")):
            result = self.run_command([self.program, "bench", *arguments])
            self.expect_error(result, 2, words)
        missing = self.run_command([self.program, "bench", "loader", "--data=mnist:nowhere"])
        self.expect_error(missing, 1, "nowhere")


if __name__ == "__main__":
    main()
