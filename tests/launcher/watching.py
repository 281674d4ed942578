#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks of the program that die, freeze, hang or lose their launcher, under a bare mpirun.

watching.py PROGRAM Watched
"""
import json
import os
import pathlib
import pty
import select
import shutil
import signal
import subprocess
import time

from program_test import clean_environment, main
from supervised import SupervisedTest, processes_with

RANKS = 3
TIMEOUT_S = 3
ENDLESS = ("--model=mlp", "--hidden=64", "--global-batch=16", "--micro-batch=4",
           "--steps=100000000", "--eval-every=0", "--log-every=200", f"--timeout={TIMEOUT_S}")
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "OMPI_MCA_hwloc_base_binding_policy": "none",
               "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
               "PRTE_MCA_hwloc_default_binding_policy": "none",
               "OMPI_MCA_mpi_yield_when_idle": "1"}


def rank_of(pid):
    try:
        variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return -1
    for variable in variables:
        if variable.startswith(b"OMPI_COMM_WORLD_RANK="):
            return int(variable.split(b"=")[1])
    return -1


class Watched(SupervisedTest):
    def launch(self, *flags, command=None, stdout=None, stderr=None):
        """mpirun in the background; its output in files."""
        self.out, self.err = (open(self.folder / name, "w+b") for name in ("stdout", "stderr"))
        self.addCleanup(self.out.close)
        self.addCleanup(self.err.close)
        program = command or [self.program, "train", "--data", f"csv:{self.table}", *ENDLESS,
                              "--out", self.folder / "run", *flags]
        process = subprocess.Popen(["mpirun", "-np", str(RANKS)] + [str(a) for a in program],
                                   cwd=self.folder, stdout=stdout or self.out,
                                   stderr=stderr or self.err, stdin=subprocess.DEVNULL,
                                   env={**clean_environment(), **ENVIRONMENT})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def launch_training(self, *flags, command=None):
        logs = self.folder / "run/logs"
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        process = self.launch(*flags, command=command)
        self.await_that(lambda: len(self.said("started")) == RANKS and
                        (logs / "rank_0.log").read_text().count("\nstep ") > 1, "no steps")
        time.sleep(0.5)  # two beats: all have told of them
        return process

    def pid_of(self, rank):
        return next(p for p in processes_with(str(self.folder / "run")) if rank_of(p) == rank)

    def said(self, what):
        """(rank, what it said) of the lines of hosts' logs that have it."""
        lines = [json.loads(line) for log in (self.folder / "run/logs").glob("*.log")
                 for line in log.read_text().splitlines() if line.startswith('{"rank":')]
        return [(line["rank"], line[what]) for line in lines if what in line]

    def records(self, rank):
        return [fault for writer, fault in self.said("fault") if writer == rank]

    def ended(self, process, start, code, within_s):
        self.assertEqual(self.finish(process), code, self.texts())
        self.assertLess(time.monotonic() - start, within_s)
        return self.texts()[1]

    def expect_record(self, ranks, culprit, pid, cause):
        for rank in ranks:
            records = self.records(rank)
            self.assertEqual(len(records), 1, f"rank {rank}: {records}")
            self.assertEqual(records[0]["rank"], culprit)
            self.assertEqual(records[0]["process"], pid)
            self.assertGreater(records[0]["step"], 0)
            self.assertIn(cause, records[0]["cause"])

    def test_a_killed_rank(self):
        for killed in (1, 0):
            process = self.launch_training()
            pid, start = self.pid_of(killed), time.monotonic()
            os.kill(pid, signal.SIGKILL)
            err = self.ended(process, start, 137, 4)  # mpirun itself takes a second
            self.assertEqual(err.count("error: "), 1, err)
            self.assertIn(f"[rank {killed} ", err)
            self.assertRegex(err, rf"process {pid}, (\w+, )?step \d")
            self.expect_record(set(range(RANKS)) - {killed}, killed, pid, "died")

    def test_a_frozen_rank(self):
        for frozen in (1, 0):
            process = self.launch_training()
            pid, start = self.pid_of(frozen), time.monotonic()
            os.kill(pid, signal.SIGSTOP)
            err = self.ended(process, start, 5, TIMEOUT_S + 4)
            self.assertEqual(err.count("error: "), 1, err)
            self.assertRegex(err, rf"process {pid}, (\w+, )?step \d")
            self.expect_record(set(range(RANKS)) - {frozen}, frozen, pid, "no sign of life")

    def test_a_freeze_of_half_the_time_survives(self):
        process = self.launch_training()
        for rank in (0, 2):
            pid = self.pid_of(rank)
            os.kill(pid, signal.SIGSTOP)
            time.sleep(TIMEOUT_S / 2)
            os.kill(pid, signal.SIGCONT)
            time.sleep(TIMEOUT_S / 2)
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(self.finish(process), 75, self.texts())
        self.assertEqual([self.records(rank) for rank in range(RANKS)], [[]] * RANKS)

    def test_a_killed_launcher(self):
        process = self.launch_training()
        pids = [self.pid_of(rank) for rank in range(RANKS)]
        process.kill()
        process.wait()
        start = time.monotonic()
        self.await_that(lambda: not processes_with(str(self.folder / "run")), "ranks are left")
        self.assertLess(time.monotonic() - start, 5)
        self.assertEqual(len(pids), RANKS)
        for rank in range(RANKS):
            self.assertIn("launcher", self.records(rank)[0]["cause"])

    def ranks_of(self, launcher):
        return [pid for pid in processes_with(str(self.folder / "run")) if pid != launcher]

    def on_terminal(self, stop, can_hang):
        """mpirun on a terminal of its own; `stop` is called with both after some steps. Returns the
        exit code and what the terminal has shown. Ranks that run 30 s after `stop` are a failure.
        Where mpirun `can_hang`, it is ended once it has outlived all its ranks by 5 s."""
        command = ["mpirun", "-np", str(RANKS), self.program, "train", "--data",
                   f"csv:{self.table}", *ENDLESS, "--out", str(self.folder / "run")]
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execvpe(command[0], command, {**clean_environment(), **ENVIRONMENT, "TERM": "xterm"})
        shown, stopped, running = b"", False, [pid]
        deadline = time.monotonic() + 60
        try:
            while time.monotonic() < deadline:
                if select.select([terminal], [], [], 0.1)[0]:
                    shown += os.read(terminal, 65536)
                if not stopped and shown.count(b"%  ") > 3:
                    stop(pid, terminal)
                    stopped, deadline = True, time.monotonic() + 30
                if stopped and running:
                    running = self.ranks_of(pid)
                    if can_hang and not running:
                        deadline = time.monotonic() + 5
            os.kill(pid, signal.SIGKILL)
        except OSError:  # the other end is closed: mpirun has ended, which its ranks must not outlive
            running = self.ranks_of(pid)
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
        self.assertTrue(stopped, shown.decode(errors="replace"))
        self.assertEqual(running, [], "ranks have not ended: " + shown.decode(errors="replace"))
        self.assertEqual(self.leftovers(), [], "processes are left")
        return os.waitstatus_to_exitcode(status), shown.decode(errors="replace")

    def test_a_terminal(self):
        """A bar is drawn there. mpirun returns 75 at SIGUSR1, with a checkpoint. At Ctrl-C its ranks
        end, and what a run saves in the second that it has, if anything, is whole. mpirun itself
        then returns 1; but on Debian 12 (4.1.4 with PMIx 4.2.2) it crashes or hangs in
        PMIx_server_finalize about once in ten times, when all ranks have ended."""
        for stop, codes in ((lambda pid, _: os.kill(pid, signal.SIGUSR1), {75}),
                            (lambda _, terminal: os.write(terminal, b"\x03"),
                             {1, -signal.SIGSEGV, -signal.SIGKILL})):
            shutil.rmtree(self.folder / "run", ignore_errors=True)
            got, shown = self.on_terminal(stop, can_hang=1 in codes)
            self.assertIn(got, codes, shown)
            self.assertRegex(shown, r"\r\S*\[=* *\]")
            self.assertRegex(shown, r"kill -USR1 \d+")
            names = sorted(p.name for p in (self.folder / "run/checkpoints").glob("step_*"))
            if got == 75:
                self.assertEqual(len(names), 1, shown)
            for name in names:
                result = self.run_command([self.program, "evaluate", "--from",
                                           self.folder / "run/checkpoints" / name])
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_rank_that_never_joins(self):
        script = self.write("start.sh", f"""[ $OMPI_COMM_WORLD_RANK = 1 ] && sleep 60
exec {self.program} train --data csv:{self.table} --model mlp --steps 3 --timeout-start 2 \
  --out {self.folder}/run
""")
        start = time.monotonic()
        err = self.ended(self.launch(command=["bash", script]), start, 5, 8)
        self.assertIn("rank 1 has not come; ranks 0, 2 have", err)
        self.assertEqual(processes_with(str(script)), [])

    def test_a_full_screen_changes_nothing(self):
        with open("/dev/full", "w") as full:
            process = self.launch("--steps=200", stdout=full, stderr=full)
            self.assertEqual(self.finish(process), 0)
            process = self.launch("--lr=1e38", "--steps=200", "--force", stdout=full, stderr=full)
            self.assertEqual(self.finish(process), 7)
        self.assertEqual(self.records(0)[0]["rank"], 0)
        self.assertIn("loss", self.records(0)[0]["cause"])

    def test_a_reader_that_does_not_read(self):
        """Standard error is a pipe that is full: the last words must not hang."""
        script = self.write("start.sh", " ".join(
            ["exec", self.program, "train", f"--data=csv:{self.table}", *ENDLESS,
             f"--out={self.folder}/run", f"2>{self.make_full_fifo()}"]))
        process = self.launch_training(command=["bash", script])
        pid, start = self.pid_of(1), time.monotonic()
        os.kill(pid, signal.SIGKILL)
        self.ended(process, start, 137, 4)
        self.expect_record({0, 2}, 1, pid, "died")

    def make_full_fifo(self):
        path = self.folder / "fifo"
        os.mkfifo(path)
        pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, pipe)
        try:
            while True:
                os.write(pipe, b"x" * 4096)
        except BlockingIOError:
            return path


if __name__ == "__main__":
    main()
