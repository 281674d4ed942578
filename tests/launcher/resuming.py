#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of the built program, signals, and runs that go on.

resuming.py PROGRAM ResumedRun|ResumedRanks
"""
import json
import os
import pathlib
import re
import resource
import shlex
import signal
import subprocess
import time


from program_test import ProgramTest, clean_environment, main

FLAGS = ("--model=mlp", "--hidden=64", "--dropout=0.1", "--data=glyphs", "--global-batch=64",
         "--micro-batch=16", "--lr=0.05", "--momentum=0.9", "--lr-schedule=cosine",
         "--eval-every=120", "--log-every=10")
PATIENCE_S = 60


class Resuming(ProgramTest):
    def run_flags(self, *more):
        """`train` with FLAGS, without the defaults of other tests; one rank unless told."""
        ranks = () if any(f.startswith("--ranks") for f in more) else ("--ranks=1",)
        return [self.program, "train", *FLAGS, *ranks, *more]

    def finish(self, *more, code=0, **options):
        result = self.run_command(self.run_flags(*more), **options)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def summary(self, out="run"):
        return json.loads((self.folder / out / "summary.json").read_text())

    def checkpoints(self, out="run"):
        folder = self.folder / out / "checkpoints"
        return sorted(p.name for p in folder.glob("step_*")) if folder.exists() else []

    def start(self, *more):
        environment = {**clean_environment(), "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        process = subprocess.Popen(self.run_flags(*more), cwd=self.folder, env=environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def wait_for(self, what, condition):
        end = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), end, f"waited in vain for {what}")
            time.sleep(0.01)

    def wait_for_step(self, step, out="run"):
        metrics = self.folder / out / "metrics.jsonl"
        self.wait_for(f"step {step}",
                      lambda: metrics.exists() and f'"step":{step},' in metrics.read_text())

    def stop_and_go_on(self, ranks, signal_number, whom):
        """`whom` picks a process of the run, which gets the signal twice."""
        self.finish("--steps=1500", "--out=whole")
        out = "it's a run"  # a shell would take it apart
        process = self.start("--steps=1500", f"--out={out}", f"--ranks={ranks}")
        self.wait_for_step(20, out)
        victim = whom(process)
        os.kill(victim, signal_number)
        os.kill(victim, signal_number)
        output, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 75, output)
        self.assertIn("stopped    after step", output)
        self.assertGreater(len(self.checkpoints(out)), 0, output)
        self.assertFalse((self.folder / out / "summary.json").exists(),
                         "a stopped run has no result")
        # What it says is a command that goes on with the run's own settings.
        command = output.split("resume with ")[1].splitlines()[0]
        result = self.run_command(["sh", "-c", command])
        self.assertEqual(result.returncode, 0, command + "\n" + result.stderr)
        self.assertIn(f"resume     {out}/checkpoints/step_", result.stdout)
        for key in ("weights_sha256", "val_loss"):
            self.assertEqual(self.summary(out)[key], self.summary("whole")[key])
        self.assertEqual(self.logged(out), self.logged("whole"))
        history = (self.folder / out / "history.jsonl").read_text().splitlines()
        self.assertEqual([json.loads(line)["step"] for line in history],
                         [0, self.summary(out)["resumed_at"]])

    def logged(self, out):
        """Steps and losses, of training and validation: what must not depend on a restart."""
        lines = (self.folder / out / "metrics.jsonl").read_text().splitlines()
        entries = [json.loads(line) for line in lines]
        return [(e["step"], e.get("loss"), e.get("val_loss")) for e in entries
                if "checkpoint" not in e]

    def go_on(self, *more, folder="."):
        """`train --resume auto --out run` and `more`, without the settings."""
        command = shlex.join([self.program, "train", "--resume=auto",
                              f"--out={self.folder}/run", *more])
        return self.run_command(["sh", "-c", f"cd {folder} && {command}"])


class ResumedRun(Resuming):
    def test_sigterm_stops_with_a_checkpoint(self):
        self.stop_and_go_on(1, signal.SIGTERM, lambda process: process.pid)

    def test_interrupted_once(self):
        process = self.start("--steps=100000", "--out=run")
        self.wait_for_step(10)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 75, output)
        self.assertGreater(len(self.checkpoints()), 0)

    def test_checkpoints_are_kept_and_removed(self):
        self.finish("--steps=60", "--out=run", "--checkpoint-every=1", "--eval-every=0")
        kept = self.checkpoints()
        self.assertEqual(len(kept), 2)
        self.assertEqual(kept[-1], "step_00000060")
        self.finish("--steps=60", "--out=none", "--checkpoint-every=0")
        self.assertEqual(self.checkpoints("none"), [])

    def test_a_complete_run_goes_on_to_the_same_end(self):
        self.finish("--steps=60", "--out=run")
        before = self.summary()
        self.finish("--steps=60", "--out=run", "--resume=auto")
        for key in ("weights_sha256", "val_loss", "train_loss", "steps", "samples"):
            self.assertEqual(self.summary()[key], before[key], key)

    def test_a_branch(self):
        self.finish("--steps=60", "--out=run", "--checkpoint-every=20", "--checkpoint-keep=9")
        names = self.checkpoints()
        self.finish("--steps=60", "--out=branch", f"--resume=run/checkpoints/{names[0]}")
        self.assertEqual(self.summary("branch")["weights_sha256"], self.summary()["weights_sha256"])
        self.assertEqual(self.checkpoints(), names)
        self.finish("--steps=60", "--out=from_run", "--resume=run")
        self.assertEqual(self.summary("from_run")["resumed_at"], 60)
        self.expect_error(self.run_command(self.run_flags(
            "--steps=60", f"--resume=run/checkpoints/{names[0]}")), 2, "newer checkpoints",
            "step_00000060")

    def test_damaged_checkpoints_are_passed_over(self):
        self.finish("--steps=60", "--out=run", "--checkpoint-every=20", "--checkpoint-keep=9")
        names, sha = self.checkpoints(), self.summary()["weights_sha256"]
        self.damage(names[-1], "optimizer.safetensors")
        result = self.finish("--steps=60", "--out=run", "--resume=auto")
        self.assertIn(f"skipped    {names[-1]}", result.stdout)
        self.assertIn("optimizer.safetensors", result.stdout)
        self.assertEqual(self.summary()["weights_sha256"], sha)
        self.assertIn(names[-1] + ".damaged", self.checkpoints())
        for name in self.checkpoints():
            self.damage(name, "model.safetensors")
        result = self.run_command(self.run_flags("--steps=60", "--out=run", "--resume=auto"))
        self.expect_error(result, 1, "no checkpoint is whole", "model.safetensors")
        self.assertIn(names[-1], self.checkpoints(), "it was removed")

    def damage(self, name, file):
        path = self.folder / "run/checkpoints" / name / file
        content = bytearray(path.read_bytes())
        content[-9] ^= 4
        path.write_bytes(content)

    def test_other_settings(self):
        self.finish("--steps=60", "--out=run")
        changed = self.run_flags("--steps=80", "--seed=3", "--label-smoothing=0.1", "--out=run",
                                 "--resume=auto")
        result = self.run_command(changed + ["--lr=0.1"])
        self.expect_error(result, 2, "--seed 1 then, 3 now", "--label-smoothing 0 then, 0.1 now",
                          "--lr 0.05 then, 0.1 now", "--resume-override")
        for text in ("--steps", "--lr-schedule", "--model"):
            self.assertNotIn(text, result.stderr)
        self.expect_error(self.go_on("--hidden=32"), 2, "--hidden 64 then, 32 now")
        self.assertEqual(self.summary()["steps"], 60)
        result = self.run_command(changed + ["--resume-override"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.summary()["steps"], 80)
        history = (self.folder / "run/history.jsonl").read_text().splitlines()
        self.assertIn("seed 1 then, 3 now", json.loads(history[-1])["overridden"])
        other = self.run_command(self.run_flags("--hidden=32", "--steps=80", "--out=run",
                                                "--resume=auto", "--resume-override"))
        self.assertEqual(other.returncode, 1, other.stderr)
        for text in ("expected [32, 64], got [10, 64]", "6.bias: expected [10], got nothing",
                     "hint: the checkpoint is of another model"):
            self.assertIn(text, other.stderr)

    def test_another_length(self):
        for schedule in ("constant", "cosine"):
            flags = (f"--lr-schedule={schedule}", "--eval-every=0", "--force")
            self.finish("--steps=80", *flags, "--out=whole")
            self.finish("--steps=60", *flags, "--out=run")
            result = self.go_on("--steps=80")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("changed    steps 60 then, 80 now", result.stdout)
            self.assertIn("next checkpoint", result.stdout)
            self.assertEqual(self.summary()["resumed_at"], 60)
            decays = schedule == "cosine"
            self.assertEqual("decay over 60 steps then, 80 now" in result.stdout, decays)
            rates = [{e["step"]: e["lr"] for e in map(json.loads, (
                self.folder / out / "metrics.jsonl").read_text().splitlines()) if "lr" in e}
                for out in ("run", "whole")]
            self.assertEqual(rates[0][80], rates[1][80])  # the decay spans the new length
            self.assertEqual(rates[0][60] == rates[1][60], not decays)
            same = self.summary()["weights_sha256"] == self.summary("whole")["weights_sha256"]
            self.assertEqual(same, not decays)
        self.expect_error(self.go_on("--steps=70"), 2, "80 steps done", "the 70")
        self.assertEqual(self.summary()["steps"], 80)

    def test_from_another_folder(self):
        """Relative paths begin where the run was started; a project that has moved has its own."""
        train = [self.program, "train", "--model=mlp", "--data=csv:table.csv", "--global-batch=16",
                 "--steps=20", "--ranks=1", "--out=run"]
        self.assertEqual(self.run_command(train).returncode, 0)
        (self.folder / "elsewhere").mkdir()
        result = self.go_on("--steps=30", folder="elsewhere")
        self.assertEqual(result.returncode, 0, result.stderr)
        evaluate = f"cd elsewhere && {shlex.quote(self.program)} evaluate --from ../run"
        self.assertEqual(self.run_command(["sh", "-c", evaluate]).returncode, 0)
        self.write("table.csv", self.table.read_text().replace("0.01", "0.02"))
        changed = self.go_on("--steps=40", folder="elsewhere")
        self.expect_error(changed, 2, "the content of --data csv:", "table.csv has changed")
        self.table.unlink()
        self.expect_error(self.go_on(folder="elsewhere"), 1, f"{self.folder}/table.csv",
                          "--data csv:PATH")

    def setting(self, key, out="run"):
        config = (self.folder / out / "config.toml").read_text()
        return re.search(rf"(?m)^{key} = (.*)$", config)[1]

    def test_a_start_that_failed_leaves_no_settings_to_the_next(self):
        train = [self.program, "train", "--model=mlp", "--data=csv:table.csv", "--global-batch=16",
                 "--steps=40", "--ranks=1", "--out=run", "--resume=auto"]
        failed = self.run_command(train + ["--lr=1e30"])
        self.expect_error(failed, 7)
        self.assertEqual(self.checkpoints(), [])
        result = self.run_command(train)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(float(self.setting("lr")), 0.1)

    def test_a_resume_that_came_to_no_checkpoint_changes_no_setting(self):
        self.finish("--steps=60", "--out=run")
        other = [self.program, "train", "--resume=auto", "--out=run", "--resume-override",
                 "--lr=0.01", "--eval-every=0", "--steps=1000000"]
        process = subprocess.Popen(other, cwd=self.folder, env=clean_environment(),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        self.wait_for_step(70)
        process.kill()
        process.wait()
        self.assertEqual(self.checkpoints(), ["step_00000060"])
        result = self.go_on()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(float(self.setting("lr")), 0.05)
        # Nor do those of a checkpoint that is damaged, and passed over.
        self.finish("--steps=60", "--out=two", "--checkpoint-every=30", "--checkpoint-keep=9")
        newest = self.folder / "two/checkpoints/step_00000060"
        (newest / "config.toml").write_text("lr = [")
        again = self.run_command([self.program, "train", "--resume=auto", "--out=two"])
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("skipped    step_00000060", again.stdout)
        self.assertEqual(float(self.setting("lr", "two")), 0.05)

    def test_the_optimizer_keeps_its_kind_of_state(self):
        self.finish("--steps=60", "--out=run")
        for flags, text in ((["--optimizer=adamw"], "--optimizer sgd then, adamw now"),
                            (["--momentum=0"], "--momentum 0.9 then, 0 now")):
            for override in ([], ["--resume-override"]):
                self.expect_error(self.go_on("--steps=80", *flags, *override), 2, text,
                                  "checkpoints/step_00000060/model.safetensors")
        self.assertEqual(self.go_on("--steps=80", "--momentum=0.8", "--resume-override").returncode,
                         0)

    def test_two_runs_do_not_share_a_folder(self):
        first = self.start("--steps=100000", "--out=run")
        self.wait_for_step(10)
        second = self.run_command(self.run_flags("--steps=100", "--out=run", "--resume=auto"))
        self.expect_error(second, 3, "another run works in run", f"process {first.pid}")
        forced = self.run_command(self.run_flags("--steps=100", "--out=run", "--force"))
        self.expect_error(forced, 3, "another run works in run")
        self.assertIsNone(first.poll(), "the first run ended")
        first.kill()
        first.wait()

    def test_refusals(self):
        for flags, texts in (
                (["--resume=auto"], ["--resume auto needs --out"]),
                (["--resume=nowhere"], ["--resume nowhere: no such folder"]),
                (["--resume=auto", "--out=x", "--force"], ["--force", "--resume"]),
                (["--resume-override"], ["--resume-override"]),
                (["--checkpoint-every=often"], ["'often'", "90s"]),
                (["--checkpoint-every=-5"], ["'-5'"]),
                (["--checkpoint-keep=0"], ["--checkpoint-keep"])):
            self.expect_error(self.run_command(self.run_flags("--steps=5", *flags)), 2, *texts)
        precious = self.write("photos/cat.jpg", "precious")
        self.expect_error(self.run_command(self.run_flags("--steps=5", "--out=photos",
                                                          "--resume=auto")),
                          2, "holds no run that could resume")
        self.assertEqual(os.listdir(precious.parent), ["cat.jpg"])
        (self.folder / "empty").mkdir()
        self.expect_error(self.run_command(self.run_flags("--steps=5", "--out=y",
                                                          "--resume=empty")),
                          1, "empty is neither a checkpoint nor a run")

    def test_a_disk_that_takes_nothing_more(self):
        """Limits the size of files, which refuses writes as a full disk does."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (40000, 40000))
        result = self.run_command(self.run_flags("--steps=60", "--out=run",
                                                 "--checkpoint-every=20"), preexec_fn=limit)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("warning: the checkpoint of step 20 was not written", result.stderr)
        self.assertIn("File too large", result.stderr)
        self.assertIn("model.safetensors", result.stderr)
        self.assertEqual(self.checkpoints(), [])
        self.assertEqual(os.listdir(self.folder / "run/checkpoints"), [], "leftovers")
        self.assertEqual(self.summary()["steps"], 60, "training itself went on")

    def test_results_that_nothing_else_holds_stay(self):
        self.finish("--steps=20", "--out=run", "--checkpoint-every=0")
        before = self.summary()
        again = self.run_command(self.run_flags("--steps=20", "--out=run", "--resume=auto"))
        self.expect_error(again, 2, "no checkpoint to resume from", "model.safetensors", "--force")
        self.assertEqual(self.summary(), before)
        user_file = self.write("run/checkpoints/last.ckpt", "of another program")
        self.finish("--steps=20", "--out=run", "--force")
        self.assertEqual(user_file.read_text(), "of another program")
        self.write("exp/config.toml", "model = 'mlp'")
        weights = self.write("exp/model.safetensors", "precious")
        self.expect_error(self.run_command(self.run_flags("--steps=20", "--out=exp",
                                                          "--resume=auto")),
                          2, "holds no run that could resume")
        self.assertEqual(weights.read_text(), "precious")

    def test_a_run_cut_off_before_its_first_checkpoint_begins_again(self):
        process = self.start("--steps=100000", "--out=run", "--eval-every=0")
        self.wait_for_step(10)
        process.kill()
        process.wait()
        self.finish("--steps=20", "--out=run", "--resume=auto")
        self.assertEqual(self.summary()["resumed_at"], 0)

    def test_sgd_without_momentum_has_no_state(self):
        flags = ("--steps=60", "--momentum=0", "--out=run", "--checkpoint-every=20",
                 "--checkpoint-keep=9")
        self.finish(*flags)
        self.finish("--steps=60", "--momentum=0", "--out=branch",
                    f"--resume=run/checkpoints/{self.checkpoints()[0]}")
        self.assertEqual(self.summary("branch")["weights_sha256"], self.summary()["weights_sha256"])


class ResumedRanks(Resuming):
    def ranks_of(self, process):
        found = []
        for link in pathlib.Path("/proc").glob("[0-9]*/exe"):
            try:
                if os.readlink(link) == self.program:
                    command = (link.parent / "cmdline").read_bytes().decode().split("\0")
                    cwd = os.readlink(link.parent / "cwd")
                    if cwd == str(self.folder) and "train" in command:
                        found.append(int(link.parent.name))
            except OSError:
                continue
        return sorted(set(found) - {process.pid})

    def test_a_stop_whose_checkpoint_fails_is_an_error_on_every_rank(self):
        process = self.start("--steps=100000", "--out=run", "--ranks=2", "--eval-every=0")
        self.wait_for_step(10)
        self.write("run/checkpoints", "in the way")
        os.kill(self.ranks_of(process)[-1], signal.SIGUSR1)
        output, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 1, output)
        self.assertIn("its checkpoint was not written", output)

    def test_sigusr1_to_one_rank_of_two(self):
        self.stop_and_go_on(2, signal.SIGUSR1, lambda process: self.ranks_of(process)[-1])


if __name__ == "__main__":
    main()
