#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training under a real Slurm: srun, sbatch, USR1, requeue, a dead node, other numbers of tasks.

slurm_test.py PROGRAM [TEST...]

Starts a cluster of three nodes on the loopback device (slurm_cluster.sh) in a temporary folder.
Exit code 77, for CTest's SKIP_RETURN_CODE, where Slurm or munge are not installed.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples/slurm"
TOOLS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol", "sinfo")
SKIPPED = 77
NODES = 3
STEPS = 3000
FLAGS = ("--model=mlp", "--hidden=256,256", "--global-batch=16", "--micro-batch=4", "--lr=0.01",
         "--momentum=0.9", f"--steps={STEPS}", "--eval-every=0", "--log-every=100",
         "--checkpoint-every=200")


def free_ports(count):
    """The first of `count` neighbouring ports that is unused."""
    for first in range(17800, 32000, count):
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
    raise RuntimeError("no free ports")


class Cluster:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-slurm-"))
        self.folder.chmod(0o755)  # munge looks at it
        environment = {**os.environ, "FIRST_PORT": str(free_ports(NODES + 1))}
        self.script("start", str(NODES), "4", env=environment)
        shown = subprocess.run(["bash", "-c", f"source {self.folder}/env.sh && env -0"], check=True,
                               stdout=subprocess.PIPE).stdout
        self.environment = dict(entry.split("=", 1) for entry in shown.decode().split("\0") if entry)
        for name in [n for n in self.environment if n.startswith("LOCKSTEP_")]:
            del self.environment[name]

    def script(self, command, *arguments, **options):
        subprocess.run([HERE / "slurm_cluster.sh", command, self.folder, *arguments], check=True,
                       timeout=60, stdout=subprocess.DEVNULL, **options)

    def stop(self):
        self.script("stop")
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes_of(self, node):
        """The node daemon, then the processes of its steps, then those that watch over them."""
        ranks = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if (b"SLURMD_NODENAME=" + node.encode() in variables and
                    b"SLURM_CONF=" + bytes(self.folder / "slurm.conf") in variables):
                ranks.append(int(entry.name))
        watchers = set()
        for rank in ranks:
            status = pathlib.Path(f"/proc/{rank}/status").read_text()
            parent = int(re.search(r"(?m)^PPid:\s+(\d+)", status)[1])
            if "slurmstepd" in pathlib.Path(f"/proc/{parent}/comm").read_text():
                watchers.add(parent)
        return [int((self.folder / f"run/slurmd.{node}.pid").read_text())], sorted(watchers), ranks

    def kill_node(self, node):
        for pid in sum(self.processes_of(node), []):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # went with the others


    def is_idle(self, node):
        command = ["sinfo", "--noheader", "--Node", f"--nodes={node}", "--format=%T"]
        shown = subprocess.run(command, env=self.environment, check=True, text=True, stdout=subprocess.PIPE)
        return shown.stdout.strip() == "idle"

    def revive(self, node):
        """A node that was killed."""
        if not self.is_idle(node):
            subprocess.run(["scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=killed"], env=self.environment,
                           check=True)  # what Slurm may not know yet
            subprocess.run(["slurmd", "-N", node], env=self.environment, check=True, stdout=subprocess.DEVNULL)


class SlurmTest(unittest.TestCase):
    program = ""
    cluster = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-test-"))
        self.folder.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        rows = [f"{i % 3 + 0.01 * (i % 7)},{2 - i % 3 + 0.01 * (i % 5)},k{i % 3}" for i in range(60)]
        (self.folder / "table.csv").write_text("\n".join(["a,b,label", *rows]) + "\n")
        self.job = None
        self.addCleanup(self.end_job)

    def end_job(self):
        if self.job:
            self.slurm("scancel", self.job, check=False)

    def slurm(self, *command, check=True, **variables):
        result = subprocess.run([str(c) for c in command], cwd=self.folder, text=True, timeout=90,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                stdin=subprocess.DEVNULL,
                                env={**self.cluster.environment, **variables})
        if check:
            self.assertEqual(result.returncode, 0, f"{command}:\n{result.stdout}")
        return result.stdout

    def submit(self, *arguments, program=None, **variables):
        output = self.slurm("sbatch", "--parsable", *arguments,
                            PROGRAM=str(program or self.program), **variables)
        self.job = output.strip().split(";")[0]
        return self.job

    def flags(self, out="run", *more):
        return [f"--data=csv:{self.folder}/table.csv", *FLAGS, f"--out={self.folder}/{out}", *more]

    def field(self, name):
        return re.search(rf"\b{name}=(\S*)", self.slurm("scontrol", "show", "job", self.job))[1]

    def logs(self):
        return "\n".join(p.read_text() for p in sorted(self.folder.glob("*.out")))

    def await_that(self, condition, what, seconds=180):
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            self.assertLess(time.monotonic(), deadline, f"{what}:\n{self.logs()}")
            time.sleep(0.02)
        return value

    def await_state(self, *states, seconds=180):
        self.await_that(lambda: self.field("JobState") in states, f"never {states}", seconds)

    def newest_step(self):
        folder = self.folder / "run/checkpoints"
        return max((int(p.name[5:]) for p in folder.glob("step_*")), default=-1)

    def await_checkpoint(self, after=-1):
        return self.await_that(lambda: self.newest_step() > after and self.newest_step(),
                               "no newer checkpoint")

    def sha(self, name="run"):
        return json.loads((self.folder / name / "summary.json").read_text())["weights_sha256"]

    def undisturbed(self):
        """Of the same training on one rank, without Slurm."""
        if not hasattr(SlurmTest, "undisturbed_sha"):
            self.slurm(self.program, "train", "--ranks=1", *self.flags("undisturbed"))
            SlurmTest.undisturbed_sha = self.sha("undisturbed")
        return SlurmTest.undisturbed_sha

    def steps_alive(self):
        """Daemons of the job's steps, and what they keep on nodes that were not killed."""
        alive = [str(p) for node in ("n1", "n2") for pattern in
                 (f"spool/{node}/*pmix.{self.job}.*", f"tmp/{node}/spmix_appdir_*_{self.job}.*")
                 for p in self.cluster.folder.glob(pattern)]
        for entry in pathlib.Path("/proc").iterdir():
            try:
                title = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if title.startswith(f"slurmstepd: [{self.job}.".encode()):
                alive.append(entry.name)
        return alive

    def continue_requeued(self, tasks, nodes):
        """The job waits in the queue, by Slurm's rule for two minutes: changes it, and lets it run.

        Not in the same second: credentials of the earlier start are revoked to the second.
        """
        self.await_state("PENDING")
        # Steps keep their numbers: the earlier one must have given up its sockets.
        self.await_that(lambda: not self.steps_alive(), "the earlier steps are not gone")
        self.slurm("scontrol", "update", f"JobId={self.job}", f"NumTasks={tasks}",
                   f"NumNodes={nodes}-{nodes}", f"NumCPUs={tasks}", "StartTime=now+2")


class Slurm(SlurmTest):
    def test_srun_connects_the_ranks_of_two_nodes(self):
        text = self.slurm("srun", "--mpi=pmix", "--nodes=2", "--ntasks=2", self.program, "train",
                          *self.flags())
        self.assertRegex(text, r"ranks +2 \(source: srun\b")
        self.assertEqual(self.sha(), self.undisturbed())

    def test_preempted_and_requeued_on_another_number_of_tasks(self):
        self.submit("--nodes=1", "--ntasks=2", EXAMPLES / "train.sbatch", *self.flags())
        self.await_checkpoint()
        self.slurm("scancel", "--batch", "--signal=USR1", self.job)
        self.continue_requeued(tasks=3, nodes=2)
        self.await_state("COMPLETED", "FAILED")
        self.assertEqual(self.field("ExitCode"), "0:0", self.logs())
        self.assertEqual(self.field("Restarts"), "1")
        self.assertRegex(self.logs(), r"ranks +3 \(source: srun\b")
        self.assertEqual(self.sha(), self.undisturbed())

    def test_a_stop_before_the_ranks_can_take_it(self):
        early = self.folder / "early"
        early.write_text(f"""#!/bin/bash
[[ -e {self.folder}/asked ]] && exec {self.program} "$@"
touch {self.folder}/asked
scancel --batch --signal=USR1 "$SLURM_JOB_ID"
sleep 30
""")
        early.chmod(0o755)
        self.submit("--ntasks=1", EXAMPLES / "train.sbatch", *self.flags(), program=early)
        self.await_that(lambda: (self.folder / "asked").exists(), "no start")
        self.continue_requeued(tasks=1, nodes=1)
        self.await_state("COMPLETED", "FAILED")
        self.assertEqual(self.field("ExitCode"), "0:0", self.logs())
        self.assertEqual(self.sha(), self.undisturbed())

    def test_a_dead_node_is_left_behind(self):
        self.submit("--nodes=2", "--ntasks=2", "--nodelist=n1,n3", EXAMPLES / "train.sbatch",
                    *self.flags())
        step = self.await_checkpoint()
        self.cluster.kill_node("n3")
        # Slurm asks the daemon in vain for a while before it requeues.
        self.await_that(lambda: self.field("JobState") == "PENDING", "never requeued")
        self.assertGreaterEqual(self.newest_step(), step)
        self.await_that(lambda: not self.steps_alive(), "the earlier steps are not gone")
        self.slurm("scontrol", "update", f"JobId={self.job}", "ReqNodeList=", "NumNodes=1",
                   "StartTime=now+2")
        self.await_state("COMPLETED", "FAILED")
        self.assertEqual(self.field("NodeList"), "n1")
        self.assertEqual(self.sha(), self.undisturbed())

    def test_a_job_continues_without_a_node_that_is_lost(self):
        self.cluster.revive("n3")
        self.await_that(lambda: self.cluster.is_idle("n3"), "n3 does not come back")
        flags = [f for f in self.flags() if not f.startswith("--checkpoint-every")]
        command = " ".join([str(self.program), "run", "--ranks=1:3", "--backoff=0.1", "--snapshot-every=0.1s", *flags])
        again = command.replace(f"{self.folder}/run", f"{self.folder}/again")
        self.assertNotEqual(command, again)
        self.submit("--no-kill", "--nodes=3", "--ntasks=3", f"--output={self.folder}/job.out", f"--wrap={command} && exec {again}")
        link = self.folder / "run/.snapshots"
        self.await_that(lambda: link.exists() and
                        any(pathlib.Path(link.read_text().split("\n")[0]).glob("step_*")), "no snapshot")
        self.assertEqual(self.field("BatchHost"), "n1")  # whose loss would end the job
        self.slurm("scontrol", "update", "NodeName=n3", "State=DRAIN", "Reason=test")
        self.cluster.kill_node("n3")
        self.await_state("COMPLETED", "FAILED")
        self.assertEqual(self.field("ExitCode"), "0:0", self.logs())
        self.assertEqual(self.field("Restarts"), "0")
        self.assertIn("starting 2 ranks under srun on n1:1,n2:1", self.logs())
        self.assertRegex(self.logs(), r"snapshot in memory, .*, [1-9]\d* steps done")
        self.assertEqual(self.sha(), self.undisturbed())
        # The second run of the job knows that the node is gone.
        self.assertEqual(self.sha("again"), self.undisturbed())

    def lose_a_rank_again_and_again(self, how):
        """The exit code of a job that may go back into the queue once."""
        self.submit("--nodes=1", "--ntasks=2", EXAMPLES / "train.sbatch",
                    *self.flags(how, "--timeout=3"), MAX_REQUEUES="1",
                    LOCKSTEP_FAULT=f"rank=1,step=300,stage=training,do={how}")
        self.await_that(lambda: self.field("Restarts") == "1", "not requeued")
        self.continue_requeued(tasks=2, nodes=1)
        self.await_state("COMPLETED", "FAILED")
        self.assertEqual((self.field("JobState"), self.field("Restarts")), ("FAILED", "1"),
                         self.logs())
        self.assertTrue((self.folder / how / "checkpoints/step_00000200").is_dir())
        return self.field("ExitCode")

    def test_a_rank_that_leaves_again_and_again(self):
        self.assertEqual(self.lose_a_rank_again_and_again("exit"), "5:0", self.logs())

    def test_a_rank_that_is_killed_again_and_again(self):
        self.assertNotEqual(self.lose_a_rank_again_and_again("kill"), "0:0", self.logs())

    def test_a_rank_that_freezes_again_and_again(self):
        self.assertNotEqual(self.lose_a_rank_again_and_again("stop"), "0:0", self.logs())

    def test_lockstep_run_restarts_inside_an_allocation(self):
        command = " ".join([str(self.program), "run", "--backoff=0.1", *self.flags()])
        self.submit("--nodes=2", "--ntasks=2", f"--output={self.folder}/job.out",
                    f"--wrap=exec {command}")
        step = self.await_checkpoint()
        ranks = self.await_that(lambda: self.cluster.processes_of("n2")[2], "no rank on n2")
        os.kill(ranks[0], signal.SIGKILL)
        # Rank 0 may still complete a checkpoint while it dies: one after the restart counts.
        self.await_that(lambda: "under srun, from step" in self.logs(), "never restarted")
        self.await_checkpoint(after=max(step, self.newest_step()))
        # The end of the allocation comes near: the supervisor hands on the wish to stop.
        self.slurm("scancel", "--batch", "--signal=USR1", self.job)
        self.await_state("COMPLETED", "FAILED")
        self.assertEqual(self.field("ExitCode"), "75:0", self.logs())
        self.assertIn("starting 2 ranks under srun, from step", self.logs())
        self.assertIn("Killed", self.logs())
        raw = self.folder / "run/logs/output/1/rank.0/stdout"
        self.assertIn("(source: srun", raw.read_text())
        self.submit("--ntasks=1", EXAMPLES / "train.sbatch", *self.flags())
        self.await_state("COMPLETED", "FAILED")
        self.assertEqual(self.sha(), self.undisturbed())

    def test_an_array_over_rank_counts(self):
        flags = [f for f in self.flags() if not f.startswith("--out")]
        self.submit("--array=0-1", "--ntasks=2", EXAMPLES / "scaling_array.sbatch", *flags,
                    "--steps=50", COUNTS="1 2", OUT=str(self.folder / "scaling"))
        done = self.await_that(lambda: len(list(self.folder.glob("scaling/*/summary.json"))) == 2,
                               "the array does not end")
        self.assertTrue(done)
        self.assertEqual(self.sha("scaling/ranks_1"), self.sha("scaling/ranks_2"))
        self.await_that(lambda: self.logs().count("samples/s, weights") == 2, "no speeds printed")

    def scaling(self, *flags):
        return [self.program, "scale", f"--data=csv:{self.folder}/table.csv", "--model=mlp",
                "--global-batch=16", "--micro-batch=4", "--ranks=1,2", "--mode=strong",
                "--repeats=1", "--steps=12", f"--out={self.folder}/scaling", *flags]

    def check_scaling(self, text):
        self.assertIn("2 of 2 runs done", text)
        result = json.loads((self.folder / "scaling/scale.json").read_text())
        self.assertEqual([point["ranks"] for point in result["points"]], [1, 2])
        for run in result["runs"]:
            environment = json.loads(pathlib.Path(run["folder"], "environment.json").read_text())
            self.assertIn("srun", environment["rank_source"])

    def test_scale_submits_a_job_for_each_count(self):
        self.check_scaling(self.slurm(*self.scaling("--launcher=sbatch")))

    def test_an_interrupted_scale_cancels_its_job(self):
        process = subprocess.Popen(
            [str(word) for word in self.scaling("--launcher=sbatch", "--steps=100000000")],
            cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL, env=self.cluster.environment)
        self.addCleanup(process.kill)
        metrics = self.folder / "scaling/runs/strong-1-1/history.jsonl"
        self.await_that(metrics.exists, "the job never trains")
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn(b"stopped by a signal", stderr)
        self.await_that(lambda: "lockstep-scale" not in self.slurm("squeue", "--noheader", "--format=%j"),
                        "the job goes on")

    def test_scale_inside_an_allocation(self):
        self.check_scaling(self.slurm("salloc", "--quiet", "--ntasks=2", *self.scaling()))


def main():
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        print(f"skipped: not installed: {', '.join(missing)} (on Debian: apt install slurm-wlm munge)")
        sys.exit(SKIPPED)
    SlurmTest.program = os.path.abspath(sys.argv.pop(1))
    SlurmTest.cluster = Cluster()
    try:
        result = unittest.main(verbosity=2, exit=False).result
    finally:
        SlurmTest.cluster.stop()
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
