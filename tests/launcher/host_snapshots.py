#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots in the memory of several hosts, which this machine plays: each has its own name and /dev/shm.

host_snapshots.py PROGRAM HostSnapshots
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

from elastic import SLOW
from program_test import main
from supervised import FLAGS, SupervisedTest

HOSTS = ("hosta", "hostb")
# Few steps, each of 30 ms and more (SLOW): enough time to lose a host, and on busy cores not much more.
STEPS = "--steps=300"


def can_mount():
    command = ["unshare", "--mount", "--uts", "mount", "--bind", "/tmp", "/dev/shm"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


@unittest.skipUnless(can_mount(), "a /dev/shm for each host needs the right to mount")
class HostSnapshots(SupervisedTest):
    def make_ssh(self):
        """That of all tests, in a place where /dev/shm is a folder of the host. It does not learn of the end of a host
        that is lost."""
        plain = super().make_ssh()
        for host in HOSTS:
            (self.folder / f"shm_{host}").mkdir(exist_ok=True)
        ssh = self.write("ssh_with_memory", f"""#!/bin/bash
for word; do
  case $word in {"|".join(HOSTS)}) host=$word && break ;; esac
done
grep -sqw $host {self.folder}/gone && exit 255
unshare --mount bash -c 'mount --bind {self.folder}/shm_'$host' /dev/shm && exec {plain} "$@"' ssh "$@"
code=$?
grep -sqw $host {self.folder}/gone && sleep 1000
exit $code
""")
        ssh.chmod(0o755)
        return ssh

    def start_on_hosts(self, *flags, ranks="1:4"):
        self.ssh = self.make_ssh()
        return self.start("run", f"--ranks={ranks}", f"--hosts={','.join(f'{host}:2' for host in HOSTS)}", f"--ssh={self.ssh}",
                          "--checkpoint-every=100000", "--snapshot-every=0.05s", "--backoff=0.1", STEPS, *flags,
                          environment=SLOW)

    def undisturbed(self):
        result = self.train(*FLAGS, STEPS, "--out=undisturbed")
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.summary("undisturbed")["weights_sha256"]

    def steps_on(self, host):
        """Those of the snapshots in the host's memory."""
        return [int(p.name[5:]) for p in (self.folder / f"shm_{host}").glob("lockstep-snapshots-*/step_*")]

    def await_snapshots(self):
        self.await_that(lambda: all(self.steps_on(host) for host in HOSTS), "no snapshots on all hosts")

    def processes_on(self, host):
        """Ranks and mpirun's daemon."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if f"TMPDIR={self.folder}/tmp_{host}\0".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def lose(self, host):
        """The host with all its processes and its memory."""
        self.write("gone", host)
        for pid in self.processes_on(host):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.folder / f"shm_{host}")
        (self.folder / f"shm_{host}").mkdir()

    def expect_end(self, process, restarts):
        self.assertEqual(self.finish(process), 0, self.texts())
        out = self.texts()[0]
        self.assertIn(f"{restarts} restarts", out)
        self.assertEqual(len(re.findall(r"snapshot in memory, .*, \d+ steps done", out)), restarts, out)
        self.assertEqual(self.summary()["weights_sha256"], self.undisturbed())
        self.assertFalse((self.folder / "run/.snapshots").exists())
        for host in HOSTS:
            self.assertEqual(list((self.folder / f"shm_{host}").glob("lockstep-*")), [], "memory is not given back")
        self.assertFalse(list(pathlib.Path("/dev/shm").glob(f"{self.name}*")))

    def await_run(self):
        """Until both hosts have a snapshot of four ranks."""
        self.await_ranks(4)
        self.await_snapshots()
        self.name = pathlib.Path((self.folder / "run/.snapshots").read_text().split("\n")[0]).name

    def test_a_host_is_lost_with_its_memory(self):
        # Its ranks are missed after 10 s, and mpirun waits for its daemon there for ever.
        for host in reversed(HOSTS):  # the second one is rank 0's
            shutil.rmtree(self.folder / "run", ignore_errors=True)
            (self.folder / "gone").unlink(missing_ok=True)
            process = self.start_on_hosts()
            self.await_run()
            self.lose(host)
            self.await_ranks(2)
            self.expect_end(process, 1)
            shutil.rmtree(self.folder / "undisturbed")

    def test_a_host_whose_memory_is_new(self):
        process = self.start_on_hosts()
        self.await_run()
        os.kill(self.ranks()[0], signal.SIGSTOP)  # so that none is written any more
        for host in HOSTS[:1]:
            shutil.rmtree(self.folder / f"shm_{host}")
            (self.folder / f"shm_{host}").mkdir()
        for pid in self.ranks():
            os.kill(pid, signal.SIGKILL)
        self.expect_end(process, 1)
        planned = self.planned("--data", f"csv:{self.table}", *FLAGS, "--ranks=4", "--ranks-per-host=2")
        self.assertEqual(planned["categories"]["checkpoint_snapshot"], self.summary()["memory"]["checkpoint_snapshot"])

    def test_the_next_supervisor_takes_them_over(self):
        process = self.start_on_hosts("--max-restarts=0", ranks=4)  # none outlives another one
        self.await_run()
        os.kill(self.ranks()[0], signal.SIGKILL)
        self.assertIn(self.finish(process), (137, 5), self.texts())  # Open MPI 5 may end another one itself, as connections close
        self.assertIn("takes over the newest", self.texts()[0])
        step = max(step for host in HOSTS for step in self.steps_on(host))
        self.lose(HOSTS[0])
        (self.folder / "gone").unlink()
        process = self.start_on_hosts()
        self.assertEqual(self.finish(process), 0, self.texts())
        resumed = int(re.search(r"snapshot in memory, .*, (\d+) steps done", self.texts()[0])[1])
        self.assertLessEqual(resumed, step)
        self.assertGreater(resumed, 0)
        for host in HOSTS:
            self.assertEqual(list((self.folder / f"shm_{host}").glob("lockstep-*")), [], "memory is not given back")
        self.assertEqual(self.summary()["weights_sha256"], self.undisturbed())

    def test_a_run_that_branched_off_begins_there_again(self):
        result = self.train(*FLAGS[:-1], "--steps=100", "--checkpoint-every=50", "--out=before")
        self.assertEqual(result.returncode, 0, result.stderr)
        process = self.start_on_hosts("--snapshot-every=0", f"--resume={self.folder}/before/checkpoints/step_00000100")
        ranks = self.await_ranks(4)
        self.await_that(lambda: "100 steps done" in self.texts()[0], "no training")
        os.kill(ranks[0], signal.SIGKILL)
        self.await_that(lambda: "restart 1" in self.texts()[0], "no restart")
        self.await_that(lambda: self.texts()[0].count("100 steps done") == 2 or process.poll() is not None, "no resume")
        process.send_signal(signal.SIGTERM)
        self.assertIn(self.finish(process), (0, 75), self.texts())
        self.assertEqual(self.texts()[0].count("100 steps done"), 2, self.texts())


if __name__ == "__main__":
    main()
