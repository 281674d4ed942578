#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the built program does: what it writes, and how it runs on several ranks.

runs.py PROGRAM Output|Ranks
"""
import json
import os
import pathlib
import pty
import re
import shlex
import termios

from program_test import ProgramTest, csv_text, main


class Output(ProgramTest):
    def test_names_of_files_need_not_be_utf8(self):
        """What is written of them is, where the format wants it."""
        name = os.fsdecode(b"d\xff.csv")
        self.table.rename(self.folder / name)
        result = self.train("--out=run", data=f"csv:{name}", errors="surrogateescape")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        (events,) = self.folder.glob("run/tensorboard/*")
        content = events.read_bytes()
        self.assertIn("csv:d\N{REPLACEMENT CHARACTER}.csv".encode(), content)
        self.assertNotIn(b"csv:d\xff", content)

    def test_a_whole_run(self):
        out = self.folder / "run"
        result = self.train("--steps=40", "--log-every=10", "--lr=0.3", "--out", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        self.assertNotIn("\x1b", result.stdout)
        self.assertIn("step 40/40", result.stdout)
        metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        steps = [m for m in metrics if "loss" in m]
        self.assertEqual([m["step"] for m in steps], [10, 20, 30, 40])
        for key in ("epoch", "samples", "loss", "lr", "grad_norm", "samples_per_s", "step_ms",
                    "data_ms", "forward_ms", "backward_ms", "comm_exposed_ms", "optimizer_ms"):
            self.assertIn(key, steps[0])
        evaluations = [m for m in metrics if "val_accuracy" in m]
        self.assertGreater(len(evaluations), 10)
        self.assertLess(result.stdout.count("validation at"), len(evaluations),
                        "epochs of milliseconds flood the output")
        summary = json.loads((out / "summary.json").read_text())
        self.assertEqual((summary["steps"], summary["ranks"]), (40, 1))
        self.assertGreater(summary["val_accuracy"], 0.9)
        self.assertIn(summary["weights_sha256"], result.stdout)
        self.assertEqual(json.loads((out / "environment.json").read_text())["rank_source"],
                         "alone")
        for name in ("config.toml", "model.safetensors", "logs/rank_0.log"):
            self.assertGreater((out / name).stat().st_size, 0, name)
        again = self.run_command([self.program, "train", "--config", out / "config.toml", "--out",
                                  self.folder / "again"])
        self.assertEqual(again.returncode, 0, again.stderr)
        repeated = json.loads((self.folder / "again/summary.json").read_text())
        self.assertEqual(repeated["weights_sha256"], summary["weights_sha256"])

    def test_a_logged_loss_is_the_mean_since_the_last_line(self):
        metrics = {}
        for every in (1, 4):
            # 48 samples to train on: batches of 20, 20 and 8.
            result = self.train("--steps=8", "--global-batch=20", "--micro-batch=20", "--lr=0.3",
                                f"--log-every={every}", f"--out=every-{every}")
            self.assertEqual(result.returncode, 0, result.stderr)
            lines = (self.folder / f"every-{every}/metrics.jsonl").read_text().splitlines()
            metrics[every] = [m for m in map(json.loads, lines) if "loss" in m]
        weights = [20, 20, 8, 20, 20, 8, 20, 20]
        self.assertEqual([m["loss"] for m in metrics[1]], [m["step_loss"] for m in metrics[1]])
        for i, mean in enumerate(metrics[4]):
            steps = list(zip(weights, metrics[1]))[4 * i:4 * i + 4]
            samples = sum(weight for weight, _ in steps)
            for key in ("loss", "accuracy"):
                expected = sum(weight * step[key] for weight, step in steps) / samples
                self.assertAlmostEqual(mean[key], expected, places=12)
            self.assertEqual(mean["step_loss"], steps[-1][1]["step_loss"])
            self.assertNotAlmostEqual(mean["loss"], mean["step_loss"], places=4)

    def test_default_folder(self):
        self.assertEqual(self.train().returncode, 0)
        self.assertEqual(len(list((self.folder / "runs").glob("*/summary.json"))), 1)

    def test_an_earlier_run_is_kept(self):
        earlier = self.write("run/summary.json", "precious")
        self.expect_error(self.train("--out=run"), 2, "already exists", "--force")
        self.assertEqual(earlier.read_text(), "precious")
        self.assertEqual(self.train("--out=run", "--force").returncode, 0)
        self.assertNotEqual(earlier.read_text(), "precious")

    def test_a_refused_start_changes_nothing(self):
        earlier = self.write("run/summary.json", "precious")
        metrics = self.write("run/metrics.jsonl", "precious")
        self.expect_error(self.train("--out=run", "--force", "--global-batch=512"), 2, "512")
        self.assertEqual(earlier.read_text() + metrics.read_text(), "preciousprecious")
        (self.folder / "empty").mkdir()
        self.expect_error(self.train("--out=empty", "--global-batch=512"), 2, "512")
        self.assertEqual(list((self.folder / "empty").iterdir()), [])
        self.expect_error(self.train("--global-batch=512"), 2, "512")
        self.assertFalse((self.folder / "runs").exists())

    def test_a_run_that_diverged_keeps_its_folder(self):
        self.expect_error(self.train("--lr=1e38", "--steps=50", "--out=run"), 7, "loss")
        self.assertTrue((self.folder / "run/config.toml").exists())
        self.assertIn("error: ", (self.folder / "run/logs/rank_0.log").read_text())

    def test_special_characters_and_overruled_keys_in_a_configuration(self):
        table = self.write("it's #1, {x}.csv", csv_text())
        first = self.train("--momentum=0.9", "--out=run", data=f"csv:{table}")
        self.assertEqual(first.returncode, 0, first.stderr)
        command = json.loads((self.folder / "run/environment.json").read_text())["command"]
        self.assertIn(f"csv:{table}", shlex.split(command))
        again = self.run_command([self.program, "train", "--config", "run/config.toml", "--out=again",
                                  "--optimizer=adamw", "--samples=32"])
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(json.loads((self.folder / "again/summary.json").read_text())["steps"], 2)

    def test_fine_tuning(self):
        self.assertEqual(self.train("--out=first", "--hidden=8").returncode, 0)
        result = self.train("--init=first/model.safetensors", "--hidden=8", "--freeze=^0",
                            "--init-skip=^2", "--out=second")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("51 parameters, 24 of them frozen", result.stdout)
        self.assertIn("start      first/model.safetensors: 2 tensors loaded, 2 skipped (2.bias, "
                      "2.weight), 2 new\n", result.stdout)
        again = self.run_command([self.program, "train", "--config", "second/config.toml",
                                  "--out=third"])
        self.assertEqual(again.returncode, 0, again.stderr)
        shas = {json.loads((self.folder / name / "summary.json").read_text())["weights_sha256"]
                for name in ("second", "third")}
        self.assertEqual(len(shas), 1)

    def test_folder_that_cannot_be_created(self):
        self.expect_error(self.train("--out=/proc/lockstep"), 3, "/proc/lockstep", "--out")
        self.expect_error(self.train("--out", self.table / "run"), 3, "Not a directory")

    def test_no_space_for_metrics(self):
        if self.has_address_sanitizer():
            self.skipTest("the address sanitizer wants to be loaded first")
        shim = pathlib.Path(self.program).parent / "tests/fault/libfailing_calls.so"
        result = self.train("--out=run", "--log-every=1",
                            environment={"LD_PRELOAD": str(shim), "FAIL_PROGRAM": self.program,
                                         "FAIL_CALLS": "write", "FAIL_WITHIN": "metrics.jsonl",
                                         "FAIL_AT": "1", "FAIL_FOR": "0"})
        self.expect_error(result, 1, "metrics.jsonl", "No space left on device")
        self.assertIn("weights_sha256", result.stdout)
        self.assertTrue((self.folder / "run/model.safetensors").exists())
        self.assertTrue((self.folder / "run/summary.json").exists())

    def test_output_that_is_full_or_closed(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            self.assertEqual(self.train("--out=full", stdout=full).returncode, 0)
        reader, writer = os.pipe()
        os.close(reader)
        self.assertEqual(self.train("--out=closed", stdout=writer).returncode, 0)
        os.close(writer)
        for name in ("full", "closed"):
            self.assertTrue((self.folder / name / "summary.json").exists())

    def on_terminal(self, columns):
        """What is shown on a terminal so wide, after the run."""
        leader, follower = pty.openpty()
        termios.tcsetwinsize(follower, (24, columns))
        result = self.train("--steps=4", "--log-every=1", stdout=follower,
                            environment={"TERM": "xterm", "NO_COLOR": "1"})
        os.close(follower)
        self.assertEqual(result.returncode, 0, result.stderr)
        shown = b""
        try:
            while chunk := os.read(leader, 65536):
                shown += chunk
        except OSError:
            pass  # the end of a pseudo-terminal
        os.close(leader)
        return shown.decode()

    def test_bar_on_a_terminal(self):
        shown = self.on_terminal(130)
        self.assertNotIn("\x1b[36m", shown)
        bars = re.findall(r"\r(\[[= ]*\][^\r\x1b]*)", shown)
        self.assertEqual(len(bars), 4, shown)
        # Loss, rate, share of the peak, memory and the time left.
        self.assertRegex(bars[1], r"^\[=+ +\]  50%  \d+s left  loss \d\.\d{4}  [\d,]+ samples/s  "
                                  r"[\d.]+ [kMG]?FLOP/s, \d+% of peak  [\d.]+ MiB of [\d.]+ MiB$")

    def test_bar_on_a_narrow_terminal_takes_one_row(self):
        for columns in (40, 60, 80):
            bars = re.findall(r"\r(\[[= ]*\][^\r\x1b]*)", self.on_terminal(columns))
            self.assertEqual(len(bars), 4)
            for bar in bars:
                self.assertLess(len(bar), columns, bar)
                self.assertIn("left", bar)

    def test_plain_lines_have_one_row_each(self):
        result = self.train("--steps=4", "--log-every=1")
        lines = [line for line in result.stdout.splitlines() if line.startswith("step ")]
        self.assertEqual(len(lines), 4)
        for line in lines:
            self.assertLess(len(line), 120, line)
            self.assertIn("FLOP/s", line)
        self.assertIn(" left", lines[1])

    def test_help_and_version(self):
        for arguments in (["--help"], ["train", "--help"], ["--version"]):
            result = self.run_command([self.program] + arguments)
            self.assertEqual(result.returncode, 0)
            self.assertTrue(result.stdout)


class Ranks(ProgramTest):
    def mpirun(self, *groups, environment=None):
        command = ["mpirun", "--oversubscribe", "--bind-to", "none"]
        if os.geteuid() == 0:
            command.append("--allow-run-as-root")
        return self.run_command(command + self.by_rank(*groups), environment)

    def launched(self, *flags, **options):
        """Arguments for a launcher, without --ranks."""
        arguments = self.train_arguments(*flags, **options)
        at = arguments.index("--ranks")
        return arguments[:at] + arguments[at + 2:]

    def sha(self, name):
        return json.loads((self.folder / name / "summary.json").read_text())["weights_sha256"]

    def test_starts_itself_with_the_same_bits(self):
        alone = self.train("--out=one")
        self.assertEqual(alone.returncode, 0, alone.stderr)
        two = self.train("--ranks=2", "--out=two")
        self.assertEqual(two.returncode, 0, two.stderr)
        self.assertIn("starting 2 ranks", two.stdout)
        self.assertIn("OMPI_COMM_WORLD_RANK", two.stdout)
        self.assertNotIn("\x1b", two.stdout)
        self.assertEqual(self.sha("one"), self.sha("two"))
        # A transcript, and one file for all ranks of the host.
        logs = {log.name: log.read_text() for log in (self.folder / "two/logs").iterdir()}
        self.assertEqual(len(logs), 2, logs)
        self.assertIn("rank_0.log", logs)
        said = [json.loads(line) for name, log in logs.items() if name != "rank_0.log" for line in log.splitlines()]
        self.assertEqual(sorted(line["rank"] for line in said), [0, 1])
        self.assertTrue(all(line["started"]["ranks"] == 2 for line in said))

    def test_errors_of_started_ranks_are_said_once_and_keep_their_code(self):
        self.expect_error(self.train("--ranks=2", data="csv:none.csv"), 1, "none.csv")
        self.expect_error(self.train("--ranks=2", "--lr=1e38", "--steps=50", "--out=run"), 7,
                          "the loss of step", "nan")
        self.expect_error(self.train("--ranks=2", "--model=convnet"), 2, "conv")

    def test_ranks_without_a_device_say_it_once(self):
        result = self.mpirun((2, self.launched("--device=cuda")),
                             environment={"CUDA_VISIBLE_DEVICES": ""})
        self.expect_error(result, 3, "rank 0 on ", "--device cuda: ", "hint: ")

    def test_usage_error_under_mpirun_is_said_once(self):
        result = self.mpirun((2, self.launched("--modle=mlp")))
        self.expect_error(result, 2, "unknown flag --modle")

    def test_error_before_the_ranks_are_known_is_said_once(self):
        result = self.mpirun((2, self.launched()), environment={"LOCKSTEP_DUPM": "x"})
        self.expect_error(result, 2, "LOCKSTEP_DUPM", "[rank 0 ")
        result = self.mpirun((1, self.launched()),
                             (1, ["env", "LOCKSTEP_DUPM=x"] + self.launched()))
        self.expect_error(result, 2, "LOCKSTEP_DUPM", "[rank 1 ")

    def test_a_colon_reaches_the_ranks(self):
        result = self.train("--ranks=2", "--out", ":")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue((self.folder / ":/summary.json").exists())

    def test_root_with_one_of_the_permissions(self):
        result = self.train("--ranks=2", environment={"OMPI_ALLOW_RUN_AS_ROOT": "1"})
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_different_flags_on_different_ranks(self):
        result = self.mpirun((1, self.launched("--lr=0.1", "--out=run")),
                             (1, self.launched("--lr=0.2", "--out=run")))
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("optimizer", result.stderr)
        self.assertIn("rank", result.stderr)
        self.assertIn("lr=0.2", result.stderr)

    def test_a_flag_that_only_one_rank_refuses(self):
        result = self.mpirun((1, self.launched("--out=run")),
                             (1, self.launched("--lr=none", "--out=run")))
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("[rank 1 ", result.stderr)
        self.assertIn("--lr is 'none'", result.stderr)

    def test_data_missing_on_one_rank(self):
        result = self.mpirun((1, self.launched("--out=run")),
                             (1, self.launched(data="csv:none.csv")))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("[rank 1 ", result.stderr)
        self.assertIn("none.csv", result.stderr)

    def test_ranks_that_contradict_the_launcher(self):
        result = self.mpirun((2, self.train_arguments("--ranks=3")))
        self.expect_error(result, 2, "--ranks 3 contradicts the launcher")

    def test_folder_that_rank_0_cannot_create(self):
        result = self.mpirun((2, self.launched("--out=/proc/lockstep")))
        self.expect_error(result, 3, "/proc/lockstep")


if __name__ == "__main__":
    main()
