#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `lockstep run`, and `lockstep train` where it starts itself, do with failures and signals.

supervised.py PROGRAM Supervised|SelfStarted
"""
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import time

from program_test import TIMEOUT_S, ProgramTest, clean_environment, main

STEPS = 3000
# Momentum, decay and an uneven last batch of each epoch: state that a restart could lose.
FLAGS = ("--model=mlp", "--hidden=256,256", "--global-batch=16", "--micro-batch=4", "--lr=0.01",
         "--momentum=0.9", "--weight-decay=0.001", f"--steps={STEPS}", "--eval-every=0",
         "--log-every=100")
# For hosts that are played by this one.
LOOPBACK = {"OMPI_MCA_btl": "self,tcp", "OMPI_MCA_btl_tcp_if_include": "lo",
            "OMPI_MCA_oob_tcp_if_include": "lo", "OMPI_MCA_mpi_yield_when_idle": "1"}


def processes_with(text):
    """Numbers of the processes whose command line holds `text`."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if text in command and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def is_rank(pid):
    try:
        return b"OMPI_COMM_WORLD_RANK=" in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def parent(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"(?m)^PPid:\s+(\d+)", status)[1])


class SupervisedTest(ProgramTest):
    def start(self, command, *flags, environment=None, out=True):
        """Starts the program in the background, its output in files."""
        arguments = [self.program, command, "--data", f"csv:{self.table}", *FLAGS]
        if out:
            arguments += ["--out", self.folder / "run"]
        arguments += flags
        self.out, self.err = (open(self.folder / name, "w+b") for name in ("stdout", "stderr"))
        self.addCleanup(self.out.close)
        self.addCleanup(self.err.close)
        process = subprocess.Popen([str(a) for a in arguments], cwd=self.folder, stdout=self.out,
                                   stderr=self.err, stdin=subprocess.DEVNULL,
                                   env={**clean_environment(), **(environment or {})})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def texts(self):
        return [(self.folder / name).read_text() for name in ("stdout", "stderr")]

    def finish(self, process):
        code = process.wait(timeout=TIMEOUT_S)
        self.assertEqual(self.leftovers(), [], "processes are left")
        return code

    def leftovers(self):
        deadline = time.monotonic() + 2
        while (left := processes_with(str(self.folder / "run"))) and time.monotonic() < deadline:
            time.sleep(0.02)
        return left

    def await_that(self, condition, what):
        deadline = time.monotonic() + TIMEOUT_S / 4
        while not (value := condition()):
            self.assertLess(time.monotonic(), deadline, f"{what}:\n" + "\n".join(self.texts()))
            time.sleep(0.005)
        return value

    def await_checkpoint(self, after=-1):
        """Waits for one that is newer, and returns its step."""
        def newer():
            steps = [int(p.name[5:]) for p in (self.folder / "run/checkpoints").glob("step_*")]
            return max(steps, default=-1) if max(steps, default=-1) > after else None
        return self.await_that(newer, "no checkpoint")

    def ranks(self):
        return sorted(p for p in processes_with(str(self.folder / "run")) if is_rank(p))

    def await_ranks(self, count):
        return self.await_that(lambda: len(r := self.ranks()) == count and r, f"no {count} ranks")

    def kill_rank(self, ranks, which=-1):
        """Kills one, and waits until all are gone. `ranks`: those of await_ranks(), called before
        what is waited for first: on a busy machine the run may end while they are sought."""
        os.kill(ranks[which], signal.SIGKILL)
        self.await_that(lambda: not set(ranks) & set(self.ranks()), "ranks go on")

    def summary(self, name="run"):
        return json.loads((self.folder / name / "summary.json").read_text())

    def run_supervised(self, *flags):
        return self.start("run", "--ranks=2", "--checkpoint-every=200", "--backoff=0.1", *flags)

    def undisturbed(self):
        result = self.train(*FLAGS, "--out=undisturbed")
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.summary("undisturbed")["weights_sha256"]


    def make_ssh(self):
        """Plays ssh to hosts that are this machine, until those that a file `gone` names are gone.

        Each has its name and its folder for temporary files: Open MPI 5's daemons are told apart by them."""
        ssh = self.write("ssh", f"""#!/bin/bash
while [[ $1 == -* ]]; do [[ $1 == -o ]] && shift; shift; done
grep -sqw "$1" {self.folder}/gone && exit 255
host=${{1#*@}}
shift
export TMPDIR={self.folder}/tmp_$host
mkdir -p $TMPDIR
if unshare --uts true 2>/dev/null; then
  exec unshare --uts bash -c "echo $host >/proc/sys/kernel/hostname; $*"
fi
exec bash -c "$*"
""")
        ssh.chmod(0o755)
        return ssh

class Supervised(SupervisedTest):
    def test_a_killed_rank_costs_no_bit(self):
        process = self.run_supervised()
        step = -1
        for _ in range(2):
            ranks = self.await_ranks(2)
            self.await_checkpoint(after=step)
            self.kill_rank(ranks)
            step = self.await_checkpoint()
        self.assertEqual(self.finish(process), 0, self.texts())
        out, err = self.texts()
        self.assertIn("2 restarts", out)
        self.assertRegex(err, r"rank \d on \S+ was ended by signal 9")
        self.assertEqual(self.summary()["weights_sha256"], self.undisturbed())
        if "(Open MPI) 4" in self.run_command(["mpirun", "--version"]).stdout:  # 5 keeps no raw output
            for start in (1, 2, 3):
                raw = self.folder / f"run/logs/output/{start}/1/rank.0/stdout"
                self.assertIn("(source:", raw.read_text())

    def test_a_killed_launcher_leaves_no_ranks(self):
        process = self.run_supervised()
        ranks = self.await_ranks(2)
        mpirun = parent(ranks[0])
        self.assertIn(pathlib.Path(f"/proc/{mpirun}/comm").read_text().strip(),
                      ("mpirun", "orterun", "prterun"))
        self.await_checkpoint()
        os.kill(mpirun, signal.SIGKILL)
        self.await_that(lambda: not set(ranks) & set(self.ranks()), "ranks outlive mpirun")
        self.assertEqual(self.finish(process), 0, self.texts())
        self.assertEqual(self.summary()["weights_sha256"], self.undisturbed())

    def test_a_killed_supervisor_leaves_no_ranks(self):
        process = self.run_supervised()
        self.await_checkpoint()
        process.kill()
        process.wait()
        self.await_that(lambda: not processes_with(str(self.folder / "run")), "ranks are left")
        self.assertEqual(self.finish(self.run_supervised()), 0, self.texts())
        self.assertEqual(self.summary()["weights_sha256"], self.undisturbed())

    def test_supervisor_and_launcher_killed_at_once_leave_no_ranks(self):
        process = self.run_supervised()
        self.await_ranks(2)
        self.await_checkpoint()
        for pid in processes_with(str(self.folder / "run")):
            if not is_rank(pid):
                os.kill(pid, signal.SIGKILL)
        self.await_that(lambda: not processes_with(str(self.folder / "run")), "ranks are left")
        process.wait()

    def test_stopped_and_continued(self):
        process = self.run_supervised("--checkpoint-every=100000")
        self.await_that(lambda: "step 100/" in self.texts()[0], "no step")
        process.send_signal(signal.SIGTERM)
        time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(process), 75, self.texts())
        step = self.await_checkpoint()
        self.assertLess(step, STEPS)
        self.assertIn(f"resume the run from step {step}", self.texts()[0])
        again = self.run_supervised("--ranks=3")
        self.assertEqual(self.finish(again), 0, self.texts())
        self.assertEqual(self.summary()["weights_sha256"], self.undisturbed())
        done = self.run_supervised()
        self.assertEqual(self.finish(done), 0, "a run that is complete is left as it is")

    def test_stopped_before_the_first_step(self):
        process = self.run_supervised()
        self.await_ranks(2)
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(self.finish(process), 75, self.texts())
        self.assertEqual(self.finish(self.run_supervised()), 0, self.texts())
        self.assertEqual(self.summary()["weights_sha256"], self.undisturbed())

    def test_restarts_are_limited_and_the_culprit_is_last(self):
        process = self.run_supervised("--max-restarts=2", "--checkpoint-every=100000", "--snapshot-every=0")
        for start in range(1, 4):
            ranks = self.await_ranks(2)
            # mpirun may hang where a rank dies earlier, and say nothing of it.
            self.await_that(lambda: self.texts()[0].count("(source:") == start, "no start")
            self.kill_rank(ranks, which=0)
        self.assertEqual(self.finish(process), 137, self.texts())
        out, err = self.texts()
        self.assertEqual(err.count("was ended by signal 9"), 3, err)
        self.assertIn("was ended by signal 9", err.splitlines()[-1])
        self.assertIn("2 restarts", out.splitlines()[-1])

    def test_what_would_fail_again_is_not_tried_again(self):
        for flags, code, text in ((["--lr=1e38"], 7, "loss"), (["--lr=none"], 2, "--lr"),
                                  (["--data=csv:none.csv"], 1, "none.csv")):
            result = self.run_command([self.program, "run", "--data", f"csv:{self.table}", *FLAGS,
                                       "--ranks=2", f"--out=run{code}", *flags])
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertNotIn("restart 1", result.stdout)
            self.assertIn(text, result.stderr)

    def test_another_run_is_branched_off(self):
        process = self.run_supervised("--checkpoint-every=100000")
        self.await_that(lambda: "step 100/" in self.texts()[0], "no step")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(process), 75, self.texts())
        begun = self.await_checkpoint()
        (self.folder / "run").rename(self.folder / "other")
        process = self.run_supervised("--resume=other", "--checkpoint-every=100000",
                                      "--snapshot-every=0", "--max-restarts=9")
        ranks = self.await_ranks(2)
        self.await_that(lambda: (self.folder / "run/history.jsonl").exists(), "no start")
        self.kill_rank(ranks)  # before the first checkpoint of its own
        self.await_that(lambda: self.texts()[0].count(" steps done\n") == 2, "no restart")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(process), 75, self.texts())
        out, err = self.texts()
        self.assertEqual(out.count(f" {begun} steps done"), 2, out + err)
        self.assertIn("1 restarts", out)
        # What is typed next has the flags that no folder keeps.
        command = shlex.split(re.search(r"resume the run from step \d+ with (.*)", out)[1])
        for flags in (["--ranks", "2"], ["--max-restarts", "9"], ["--backoff", "0.1"]):
            self.assertEqual(command[command.index(flags[0]):][:2], flags)
        # The folder says where the run goes on.
        process = self.start("run", "--ranks=2", f"--resume={self.folder}/run", out=False)
        self.assertEqual(self.finish(process), 0, self.texts())
        self.assertEqual(self.summary()["weights_sha256"], self.undisturbed())

    def test_a_stop_that_ranks_do_not_heed(self):
        for command, flags, signals in (("run", ["--grace=0.5"], [signal.SIGTERM]),
                                        ("run", [], [signal.SIGINT] * 2),
                                        ("train", ["--resume=auto"], [signal.SIGINT] * 2)):
            process = self.start(command, "--ranks=2", "--checkpoint-every=200", *flags)
            ranks = self.await_ranks(2)
            self.await_that(lambda: re.search(r"step \d+/", self.texts()[0]), "no step")
            os.kill(ranks[0], signal.SIGSTOP)
            for number in signals:
                process.send_signal(number)
                time.sleep(0.3)  # two at once may be seen as one
            self.assertEqual(self.finish(process), 75, self.texts())

    def test_one_supervisor_for_a_folder(self):
        process = self.run_supervised("--steps=100000000")
        self.await_checkpoint()
        second = self.run_command([self.program, "run", "--ranks=1", "--data", f"csv:{self.table}",
                                   *FLAGS, "--out=run"])
        self.expect_error(second, 3, "another run works in run")
        self.assertNotIn("starting", second.stdout)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(process), 75, self.texts())
        # Nor is the progress of a run without a supervisor taken for that of our ranks.
        process = self.start("train", "--ranks=1", "--resume=auto", "--steps=100000000",
                             "--checkpoint-every=200")
        self.await_checkpoint(after=self.await_checkpoint())
        second = self.run_command([self.program, "run", "--ranks=1", "--data", f"csv:{self.table}",
                                   *FLAGS, "--out=run"])
        self.assertEqual(second.returncode, 3, second.stderr)
        self.assertNotIn("restart 1", second.stdout)
        process.send_signal(signal.SIGHUP)
        self.assertEqual(self.finish(process), 75, self.texts())

    def test_a_folder_of_others_is_left_alone(self):
        self.write("run/notes", "ours")
        result = self.run_command([self.program, "run", "--ranks=2", "--data", f"csv:{self.table}",
                                   *FLAGS, "--out=run"])
        self.expect_error(result, 2, "holds no run")
        self.assertEqual([p.name for p in (self.folder / "run").iterdir()], ["notes"])

    def test_no_path_is_a_command_on_another_host(self):
        marks = [self.folder / f"run_{i}" for i in range(3)]
        out = f"o$(touch {marks[0]})`touch {marks[1]}`\"; touch {marks[2]}; 'it''s"
        flags = [f for f in self.train_arguments(*FLAGS, "--steps=50")[2:] if f != "--ranks"]
        flags.remove("1")
        result = self.run_command(
            [self.program, "run", "--hosts=host_a:1,me@hostb:1", f"--ssh={self.make_ssh()}",
             *flags, "--out", out], environment=LOOPBACK)
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        self.assertTrue((self.folder / out / "summary.json").exists())
        self.assertEqual([m.name for m in marks if m.exists()], [], "a shell has run them")

    def test_a_host_that_is_gone_is_skipped(self):
        process = self.start("run", "--hosts=hosta:1,hostb:1", f"--ssh={self.make_ssh()}", "--backoff=0.1",
                             "--checkpoint-every=50", "--max-restarts=30", environment=LOOPBACK)
        second = next(p for p in self.await_ranks(2) if b"OMPI_COMM_WORLD_RANK=1\0" in
                      pathlib.Path(f"/proc/{p}/environ").read_bytes())
        daemon = parent(second)
        step = self.await_checkpoint()
        self.write("gone", "hosta hostb")
        os.kill(daemon, signal.SIGKILL)
        os.kill(second, signal.SIGKILL)
        self.await_that(lambda: "none of the hosts" in self.texts()[0], "hosts are not tried")
        self.write("gone", "hostb")
        self.assertEqual(self.finish(process), 0, self.texts())
        out, err = self.texts()
        self.assertIn("host hostb went away", err)
        self.assertRegex(out, r"starting 1 rank under mpirun on hosta:1, from step \d+")
        self.assertGreaterEqual(int(re.search(r"from step (\d+)", out)[1]), step)
        self.assertEqual(self.summary()["weights_sha256"], self.undisturbed())

    def test_refusals(self):
        self.expect_error(self.run_command([self.program, "run"]), 2, "--out")
        self.expect_error(self.run_command([self.program, "run", "--out=x", "--hosts=a:none"]), 2,
                          "--hosts")
        self.expect_error(self.run_command([self.program, "run", "--out=x", "--ranks=2"],
                                           environment={"PATH": "/nonexistent"}), 3, "mpirun")
        for flags in (["--hosts="], ["--hosts=a:1:2"], ["--hosts=a", "--ssh=x y"]):
            self.expect_error(self.run_command([self.program, "run", "--out=x", *flags]), 2, flags[-1][:5])
        self.expect_error(self.run_command([self.program, "run", "--out=x", "--hosts=a",
                                            "--ssh=no-such-program"]), 3, "no-such-program")
        self.assertFalse((self.folder / "x").exists())


class SelfStarted(SupervisedTest):
    def test_limits_under_which_mpirun_would_hang(self):
        for limits, named in (("-n 24", "ulimit -n"), ("-v 300000", "ulimit -v"), ("-f 100", "ulimit -f")):
            if limits.startswith("-v") and self.has_address_sanitizer():
                continue  # which reserves terabytes
            command = ["bash", "-c", f'ulimit {limits} || exit 9; exec "$@"', "bash", self.program]
            for start in ("train", "run"):
                result = self.run_command([*command, start, "--ranks=2", f"--data=csv:{self.table}",
                                           *FLAGS, f"--out={self.folder / 'x'}"], timeout=TIMEOUT_S)
                self.expect_error(result, 3, named)
        # The soft limit is no obstacle.
        result = self.run_command(["bash", "-c", 'ulimit -Sn 24; exec "$@"', "bash", self.program,
                                   "train", "--ranks=2", f"--data=csv:{self.table}", *FLAGS,
                                   f"--out={self.folder / 'y'}"], timeout=TIMEOUT_S)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_signal_becomes_a_checkpoint(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            process = self.start("train", "--ranks=2", "--resume=auto")
            self.await_that(lambda: re.search(r"step \d+/", self.texts()[0]), "no step")
            process.send_signal(number)
            self.assertEqual(self.finish(process), 75, self.texts())
            self.await_checkpoint()
            self.assertIn("starting 2 ranks", self.texts()[0])
        self.assertEqual(self.finish(self.start("train", "--ranks=2", "--resume=auto")), 0)
        self.assertEqual(self.summary()["weights_sha256"], self.undisturbed())

    def test_a_killed_rank_is_named(self):
        process = self.start("train", "--ranks=2")
        ranks = self.await_ranks(2)
        # mpirun may hang where a rank dies earlier, and say nothing of it.
        self.await_that(lambda: "(source:" in self.texts()[0], "no start")
        self.kill_rank(ranks)
        # The killed rank's code or the other's, who has noticed: whichever comes to mpirun first.
        self.assertIn(self.finish(process), (137, 5), self.texts())
        self.assertRegex(self.texts()[1], r"error: rank \d on \S+ was ended by signal 9")

    def test_a_killed_parent_leaves_no_ranks(self):
        process = self.start("train", "--ranks=2")
        self.await_ranks(2)
        process.kill()
        process.wait()
        self.await_that(lambda: not processes_with(str(self.folder / "run")), "ranks are left")


if __name__ == "__main__":
    main()
