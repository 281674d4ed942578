#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is done to a run from outside: to its folder, its data, its signals.

disturbed.py PROGRAM Disturbed|DisturbedRanks|ChangedData
"""
import os
import shutil
import struct
import subprocess

from images import png
from program_test import clean_environment, main
from resuming import FLAGS, PATIENCE_S, Resuming


class Disturbed(Resuming):
    def test_a_folder_that_is_moved_or_removed(self):
        for hurt in (lambda folder: folder.rename(self.folder / "elsewhere"), shutil.rmtree):
            process = self.start("--steps=400", "--out=run", "--eval-every=0")
            self.wait_for_step(20)
            hurt(self.folder / "run")
            output, _ = process.communicate(timeout=PATIENCE_S)
            self.assertEqual(process.returncode, 1, output)
            self.assertRegex(output, "warning: run: moved or removed")
            for name in ("model.safetensors", "summary.json"):
                self.assertTrue((self.folder / "run" / name).exists(), name)
            shutil.rmtree(self.folder / "run")

    def test_a_token_file_that_becomes_shorter(self):
        tokens = self.write("tokens.bin", bytes(2 * 400_000))
        process = subprocess.Popen(
            [self.program, "train", "--data=tokens:tokens.bin", "--vocabulary=2", "--model=gpt",
             "--layers=1", "--heads=1", "--width=16", "--context=8", "--global-batch=4",
             "--micro-batch=4", "--ranks=1", "--eval-every=0", "--steps=1000000", "--log-every=10",
             "--checkpoint-every=10", "--out=run"], cwd=self.folder, env=clean_environment(),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        self.wait_for_step(50)
        os.truncate(tokens, 1000)
        _, errors = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 1, errors)
        self.assertIn("tokens.bin: byte ", errors)
        self.assertGreater(len(self.checkpoints()), 0)


class DisturbedRanks(Resuming):
    def test_an_ignored_end_of_children(self):
        """As some supervisors hand it on: whoever waits for a child then waits for ever."""
        for ranks in ("1", "2"):
            result = self.run_command(
                ["env", "--ignore-signal=CHLD", self.program, "run", *FLAGS, "--steps=20",
                 f"--ranks={ranks}", f"--out=run{ranks}"], timeout=PATIENCE_S)
            self.assertEqual(result.returncode, 0, result.stderr)


class ChangedData(Resuming):
    """What a resume says of data that are not those that the run was trained on."""

    def tokens(self, change=None):
        """1.5 million tokens, of which one after the first MiB may be another."""
        data = bytearray(struct.pack("<3000H", *(i * 7 % 50 for i in range(3000))) * 500)
        if change is not None:
            data[change:change + 2] = struct.pack("<H", 49)
        self.write("tokens.bin", bytes(data))

    def train_tokens(self, *more):
        return self.run_command([
            self.program, "train", "--data=tokens:tokens.bin", "--vocabulary=50", "--model=gpt",
            "--layers=1", "--heads=1", "--width=16", "--context=8", "--global-batch=4",
            "--micro-batch=4", "--ranks=1", "--eval-every=0", "--out=run", *more])

    def test_tokens(self):
        self.tokens()
        self.assertEqual(self.train_tokens("--steps=2").returncode, 0)
        self.tokens(change=2_400_000)
        refused = self.train_tokens("--steps=4", "--resume=auto")
        self.expect_error(refused, 2, "content", "tokens:tokens.bin")
        self.tokens()
        os.utime(self.folder / "tokens.bin", (2e9, 2e9))
        result = self.train_tokens("--steps=4", "--resume=auto")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"changed +data written .* then, 2033-05-18")

    def test_a_place_that_the_data_have_moved_to(self):
        """The part for validation stays the same, or its samples would be trained on."""
        self.photos()
        for data, moved, flags in (("csv:table.csv", "csv:new.csv", []),
                                   ("images:photos", "images:moved", ["--image-size=16"])):
            start = [self.program, "train", "--model=mlp", f"--data={data}", "--global-batch=4",
                     "--micro-batch=4", "--ranks=1", "--val-fraction=0.3", "--steps=2",
                     "--force", "--out=run", *flags]
            self.assertEqual(self.run_command(start).returncode, 0)
            go_on = [self.program, "train", "--resume=run", f"--data={moved}", "--steps=4"]
            (self.folder / data.split(":")[1]).rename(self.folder / moved.split(":")[1])
            result = self.run_command(go_on)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("val-fraction = 0.3\n", (self.folder / "run/config.toml").read_text())
            other = self.run_command(go_on + ["--val-fraction=0.5"])
            self.expect_error(other, 2, "--val-fraction 0.3 then, 0.5 now")

    def test_settings_of_a_table(self):
        self.write("table.csv", "a,b,c\n" + "".join(f"{i},{i * i % 7},{i % 3}\n" for i in range(60)))
        start = [self.program, "train", "--model=mlp", "--data=csv:table.csv", "--global-batch=16",
                 "--ranks=1", "--steps=2", "--missing=mean", "--out=run"]
        self.assertEqual(self.run_command(start).returncode, 0)
        for flag, words in (("--drop=a", "--drop absent then, a now"),
                            ("--label-column=b", "--label-column absent then, b now"),
                            ("--id-column=a", "--id-column absent then, a now"),
                            ("--task=regression", "--task auto then, regression now")):
            result = self.run_command([self.program, "train", "--resume=run", "--steps=4", flag])
            self.expect_error(result, 2, words)
            self.assertNotIn("has changed", result.stderr)

    def photos(self):
        for kind in range(2):
            for i in range(12):
                self.write(f"photos/{kind}/{i}.png", png(20, 18, lambda x, y, k=kind: (99 * k, x, y)))

    def test_images(self):
        self.photos()
        flags = ["--data=images:photos", "--image-size=16", "--model=convnet", "--global-batch=4",
                 "--micro-batch=4", "--ranks=1", "--eval-every=0", "--out=run"]
        train = lambda *more: self.run_command([self.program, "train", *flags, *more])
        first = train("--steps=2")
        self.assertEqual(first.returncode, 0, first.stderr)
        path = self.folder / "photos/1/7.png"
        whole = path.read_bytes()
        # The same name and size, which alone said what the content was.
        path.write_bytes(whole[:-20] + b"Y" + whole[-19:])
        self.expect_error(train("--steps=4", "--resume=auto"), 2, "content", "images:photos")
        path.write_bytes(whole)
        result = train("--steps=4", "--resume=auto")
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    main()
