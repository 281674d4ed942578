#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What holds a run back is provoked, and has to be what the run names first at its end.

advice.py PROGRAM Advice|AdviceRanks
"""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys

from images import png
from program_test import ProgramTest, main

LEDGER = ("data", "copy", "forward", "backward", "comm_exposed", "optimizer", "device_wait",
          "logging", "checkpoint", "other")
NOISE = "--data=synthetic:28x28x1:10"
CONVNET = ("--model=convnet", "--global-batch=64", "--micro-batch=32", "--workers=0")
SHORTEST_S = 0.5  # shorter runs never get any
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class AdviceTest(ProgramTest):
    def summary_of(self, steps, *flags, environment=None, prefix=()):
        """Of `steps` steps, or of as many more as this machine needs for a run that gets advice."""
        while True:
            result = self.run_command([*prefix, self.program, "train", "--eval-every=0",
                                       "--out=run", "--force", f"--steps={steps}", *flags],
                                      {**ROOT, **(environment or {})})
            self.assertEqual(result.returncode, 0, result.stderr)
            self.out = self.log_of("run")
            summary = json.loads((self.folder / "run/summary.json").read_text())
            self.ledger_adds_up(summary)
            seconds = summary["ledger"][0]["seconds"]
            if seconds > SHORTEST_S:
                return summary
            steps *= int(2 * SHORTEST_S / seconds) + 1

    def ledger_adds_up(self, summary):
        self.assertEqual([rank["rank"] for rank in summary["ledger"]],
                         list(range(summary["ranks"])))
        for rank in summary["ledger"]:
            self.assertAlmostEqual(sum(rank[part] for part in LEDGER), rank["seconds"], places=5)
            self.assertGreaterEqual(min(rank[part] for part in LEDGER), -1e-6)
        for line in (self.folder / "run/metrics.jsonl").read_text().splitlines():
            step = json.loads(line)
            if "step_ms" in step:
                self.assertAlmostEqual(sum(step[f"{part}_ms"] for part in LEDGER),
                                       step["step_ms"], delta=1e-4 * step["step_ms"])

    def first(self, summary, cause, *texts):
        """That advice is the first, and the end of the run's log says it."""
        self.assertTrue(summary["advice"], summary["ledger"])
        advice = summary["advice"][0]
        self.assertEqual(advice["cause"], cause, summary)
        self.assertGreater(advice["gain"], 0.05)
        self.assertIn("advice                 " + advice["text"], self.out)
        for text in texts:
            self.assertIn(text, " ".join(str(value) for value in advice.values()))


    def agrees_with_itself(self, summary):
        """Advice gains more than the run's own spread, and says what the ledgers say."""
        ledgers, error = summary["ledger"], summary["step_time_error"] or 0
        exchange = [rank["comm_exposed"] / rank["seconds"] for rank in ledgers]
        one_host = len({rank["host"] for rank in ledgers}) == 1
        for advice in summary["advice"]:
            self.assertGreaterEqual(advice["gain"], max(0.05, 3 * error))
            if one_host:
                self.assertNotIn("faster network", advice["remedy"])
            if advice["cause"] == "communication":
                # What is exposed, and what moves while backward goes on.
                self.assertLessEqual(advice["gain"],
                                     min((rank["comm_exposed"] + rank["backward"]) / rank["seconds"]
                                         for rank in ledgers))
            if advice["cause"] != "slow_rank":
                continue
            slow = int(re.search(r"^rank (\d+) ", advice["text"])[1])
            others = [share for rank, share in enumerate(exchange) if rank != slow]
            waited = sum(others) / len(others)
            self.assertAlmostEqual(advice["gain"], waited - exchange[slow], places=5)
            times = float(re.search(r"takes ([\d.]+) times", advice["text"])[1])
            self.assertAlmostEqual(times, (1 - exchange[slow]) / (1 - waited), delta=0.006)


@contextlib.contextmanager
def busy_cores(count):
    """Other processes that always want to run."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def counts_run_queues():
    return pathlib.Path("/proc/thread-self/schedstat").exists()


class Advice(AdviceTest):
    def test_a_healthy_run_gets_none(self):
        summary = self.summary_of(150, NOISE, *CONVNET, "--ranks=1")
        self.assertEqual(summary["advice"], [])
        self.assertNotIn("advice", self.out)

    def test_a_slow_loader(self):
        for i in range(4):
            self.write(f"photos/{'ab'[i % 2]}/{i}.png",
                       png(300, 300, lambda x, y, i=i: (x * y % 251, (x + i) % 256, y % 256)))
        summary = self.summary_of(400, "--data=images:photos", "--model=mlp", "--hidden=4",
                                  "--image-size=32", "--workers=1", "--global-batch=2",
                                  "--ranks=1", "--augment=flip",
                                  "--val-fraction=0.5")
        self.first(summary, "data_wait", "a worker delivers", "--workers"
                   if len(os.sched_getaffinity(0)) > 1 else "every core computes already")

    def test_checkpoints_that_are_waited_for(self):
        table = self.write("table.csv", "a,b,label\n" + "1,2,x\n2,1,y\n" * 20)
        summary = self.summary_of(200, f"--data=csv:{table}", "--model=mlp", "--hidden=4",
                                  "--global-batch=16", "--ranks=1",
                                  "--val-fraction=0", "--on-spike=rollback",
                                  "--checkpoint-every=1")
        self.first(summary, "checkpoint", "--checkpoint-every")

    def test_logging_every_step(self):
        table = self.write("table.csv", "a,b,label\n" + "1,2,x\n2,1,y\n" * 20)
        summary = self.summary_of(60000, f"--data=csv:{table}", "--model=mlp", "--hidden=4",
                                  "--global-batch=16", "--log-every=1",
                                  "--ranks=1", "--noise-scale-every=0", "--val-fraction=0")
        self.first(summary, "logging", "--log-every")


class AdviceRanks(AdviceTest):
    def test_a_healthy_run_gets_none_but_of_the_machine(self):
        # Other work on the cores is a slow rank, crowding and waiting for each other: no fault of the run.
        summary = self.summary_of(100, NOISE, *CONVNET, "--ranks=2", "--device=cpu")
        advice = summary["advice"]
        of_the_machine = {"communication", "slow_rank", "crowded"}
        self.assertLessEqual({one["cause"] for one in advice}, of_the_machine, advice)
        self.agrees_with_itself(summary)

    def test_a_slow_folder(self):
        if self.has_address_sanitizer():
            self.skipTest("the address sanitizer wants to be loaded first")
        shim = pathlib.Path(self.program).parent / "tests/fault/libfailing_calls.so"
        self.assertTrue(shim.exists(), shim)
        summary = self.summary_of(60, NOISE, *CONVNET, "--ranks=1", "--log-every=2",
                                  environment={"LD_PRELOAD": shim, "FAIL_PROGRAM": self.program,
                                               "FAIL_CALLS": "write", "FAIL_WITHIN": "metrics",
                                               "SLOW_MS": "50"})
        self.first(summary, "slow_storage", "--out on faster storage")

    def test_a_model_that_is_too_small(self):
        table = self.write("table.csv", "a,b,label\n" + "1,2,x\n2,1,y\n" * 40)
        summary = self.summary_of(100000, f"--data=csv:{table}", "--model=mlp", "--hidden=4",
                                  "--global-batch=16", "--micro-batch=8",
                                  "--ranks=2", "--val-fraction=0")
        self.first(summary, "too_small", "--ranks 1")

    def test_a_slow_rank(self):
        fault = "rank=1,phase=backward,times=1000000,do=sleep:0.2"
        summary = self.summary_of(24, NOISE, *CONVNET, "--ranks=2",
                                  environment={"LOCKSTEP_FAULT": fault})
        self.first(summary, "slow_rank", "rank 1", "forward and backward")
        self.agrees_with_itself(summary)

    def test_other_processes_on_the_cores(self):
        cores = sorted(os.sched_getaffinity(0))[:2]
        if len(cores) < 2:
            self.skipTest("two ranks share the only core anyway")
        with busy_cores(2 * len(os.sched_getaffinity(0))):
            summary = self.summary_of(60, NOISE, *CONVNET, "--ranks=2", "--device=cpu")
        self.agrees_with_itself(summary)
        causes = {advice["cause"] for advice in summary["advice"]}
        if counts_run_queues():
            # Each rank has a third of a core: its wait is no matter of the exchange.
            self.assertGreater(max(rank["queued"] / rank["seconds"] for rank in summary["ledger"]),
                               0.2, summary["ledger"])
            self.assertNotIn("communication", causes)
        else:
            self.assertTrue(all(rank["queued"] is None for rank in summary["ledger"]))

    def test_two_ranks_on_one_core(self):
        core = min(os.sched_getaffinity(0))
        summary = self.summary_of(40, NOISE, *CONVNET, "--ranks=2",
                                  prefix=("taskset", "-c", str(core)))
        self.first(summary, "crowded", "share 1 processor", "--ranks 1")

    def test_gradients_that_take_longer_than_their_making(self):
        summary = self.summary_of(400, "--data=synthetic:8x8x3:10", "--model=mlp",
                                  "--hidden=1024,1024", "--global-batch=2", "--micro-batch=1",
                                  "--ranks=2", "--workers=0", "--noise-scale-every=0")
        self.agrees_with_itself(summary)
        lacks_cores = max((rank["queued"] or 0) / rank["seconds"] for rank in summary["ledger"])
        waited = min(rank["comm_exposed"] / rank["seconds"] for rank in summary["ledger"])
        if summary["advice"] and summary["advice"][0]["cause"] == "crowded":  # by other processes
            self.assertGreaterEqual(lacks_cores, waited / 2)
        else:
            self.first(summary, "communication", "--global-batch")

    def test_too_small_a_bucket(self):
        summary = self.summary_of(200, "--data=synthetic:8x8x3:10", "--model=resnet20",
                                  "--bucket-mb=0.001", "--global-batch=2", "--micro-batch=1",
                                  "--ranks=2", "--workers=0")
        self.first(summary, "small_buckets", "--bucket-mb auto")


if __name__ == "__main__":
    main()
