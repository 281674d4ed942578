#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the built program does with a run that has ended: evaluate, predict, generate; and the
profile of one.

saved_runs.py PROGRAM SavedRuns
"""
import json
import re

from program_test import ProgramTest, main

TEXT = "".join(f"the {a} {b}s over the {c}.\n" for a in ("dog", "cat", "fox", "hen")
               for b in ("jump", "run", "walk", "look") for c in ("wall", "road", "lake"))
GPT = ("--model=gpt", "--layers=2", "--heads=2", "--width=32", "--context=16", "--optimizer=adamw",
       "--lr=0.01", "--global-batch=8", "--micro-batch=4", "--no-decay=.*")


class SavedRuns(ProgramTest):
    def command(self, name, *arguments):
        return self.run_command([self.program, name, *arguments])

    def text_run(self, *flags):
        text = self.write("text.txt", TEXT * 4)
        result = self.train(*GPT, "--steps=150", "--out=gpt", *flags, data=f"text:{text}")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads((self.folder / "gpt/summary.json").read_text())

    def run_with_checkpoints(self, *flags):
        """Trains 600 steps; returns an earlier checkpoint and the last."""
        result = self.train("--steps=600", "--checkpoint-every=100", "--out=run", *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        checkpoints = sorted((self.folder / "run/checkpoints").glob("step_*"))
        self.assertGreater(len(checkpoints), 1)
        return checkpoints[0], checkpoints[-1]

    def test_evaluate_says_what_training_said(self):
        self.assertEqual(self.train("--steps=40", "--lr=0.3", "--out=run").returncode, 0)
        summary = json.loads((self.folder / "run/summary.json").read_text())
        result = self.command("evaluate", "--from=run")
        self.assertEqual(result.returncode, 0, result.stderr)
        loss, accuracy = re.match(r"loss (\S+)  accuracy (\S+)%", result.stdout).groups()
        self.assertAlmostEqual(float(loss), summary["val_loss"], places=6)
        self.assertAlmostEqual(float(accuracy), summary["val_accuracy"] * 100, places=2)

    def test_predict_prints_a_line_a_sample(self):
        self.assertEqual(self.train("--steps=40", "--lr=0.3", "--out=run").returncode, 0)
        result = self.command("predict", "--from=run", "--count=5", "--top=2")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), 5)
        for number, line in enumerate(lines):
            self.assertRegex(line, rf"^{number}  k\d  (right|wrong)  k\d [\d.]+%, k\d [\d.]+%$")
        self.assertGreater(sum("right" in line for line in lines), 3)

    def test_gpt_learns_and_continues_text(self):
        summary = self.text_run()
        self.assertLess(summary["val_loss"], 1.0, "characters at random have a loss of 3.2")
        result = self.command("generate", "--from=gpt", "--prompt=the dog ", "--tokens=40",
                              "--temperature=0")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(result.stdout.startswith("the dog "), result.stdout)
        self.assertIn(" over the ", result.stdout)
        again = self.command("generate", "--from=gpt", "--prompt=the dog ", "--tokens=40",
                             "--temperature=0")
        self.assertEqual(again.stdout, result.stdout)

    def test_a_checkpoint_is_as_good_as_a_run(self):
        earlier, newest = self.run_with_checkpoints("--lr=0.3")
        last = self.command("evaluate", "--from=run").stdout.split("  (")[0]
        (self.folder / "run/model.safetensors").unlink()
        for place in ("run", newest):
            result = self.command("evaluate", f"--from={place}")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stdout.split("  (")[0], last)
        result = self.command("predict", f"--from={earlier}", "--count=2")
        self.assertEqual(result.returncode, 0, result.stderr)
        weights = newest / "model.safetensors"
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(content)
        self.expect_error(self.command("evaluate", f"--from={newest}"), 1, "model.safetensors")
        passed_over = self.command("evaluate", "--from=run")
        self.assertEqual(passed_over.returncode, 0, passed_over.stderr)
        self.assertIn("passed over", passed_over.stderr)
        self.assertIn(newest.name, passed_over.stderr)

    def test_export(self):
        earlier, newest = self.run_with_checkpoints()
        result = self.command("export", "--from=run", "--to=a.safetensors")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("4, named as in PyTorch", result.stdout)
        saved = (self.folder / "run/model.safetensors").read_bytes()
        self.assertEqual((self.folder / "a.safetensors").read_bytes(), saved)
        (self.folder / "run/model.safetensors").unlink()
        self.expect_error(self.command("export", "--from=run", "--to=a.safetensors"), 2, "--force")
        result = self.command("export", "--from=run", "--to=a.safetensors", "--force")
        self.assertIn(f"{newest.name}, step 600", result.stdout)
        result = self.command("export", f"--from={earlier}", "--to=b.safetensors")
        self.assertIn(f"{earlier.name}, step ", result.stdout)
        again = self.train("--init=b.safetensors", "--out=again")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.expect_error(self.command("export", "--from=run"), 2, "--to")
        self.expect_error(self.command("export", "--from=run", "--to=none/x"), 3, "none/x")
        self.expect_error(self.command("export", "--from=none", "--to=x"), 3, "none/config.toml")
        self.assertEqual(sorted(p.name for p in self.folder.glob("*.safetensors*")),
                         ["a.safetensors", "b.safetensors"])

    def test_refusals(self):
        self.assertEqual(self.train("--out=run").returncode, 0)
        self.expect_error(self.command("evaluate"), 2, "--from")
        self.expect_error(self.command("evaluate", "--from=none"), 3, "none/config.toml")
        self.expect_error(self.command("evaluate", "--from=run", "--sped=3"), 2, "sped")
        self.expect_error(self.command("generate", "--from=run"), 2, "lockstep generate is for gpt")
        (self.folder / "run/model.safetensors").write_bytes(b"short")
        self.expect_error(self.command("evaluate", "--from=run"), 1, "model.safetensors")

    def test_a_prompt_outside_the_text_is_refused(self):
        self.text_run("--steps=1")
        self.expect_error(self.command("generate", "--from=gpt", "--prompt=Über"), 2, "'Ü'")

    def test_profile(self):
        result = self.train("--profile", "--steps=20", "--hidden=32", "--out=run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("GFLOP/s", result.stdout)
        for operator in ("linear", "linear_bwd_weights", "softmax_cross_entropy", "optimizer"):
            self.assertRegex(result.stdout, rf"(?m)^{operator} +\d")
        trace = json.loads((self.folder / "run/trace.json").read_text())
        names = {event["name"] for event in trace if event["ph"] == "X"}
        self.assertIn("linear", names)
        self.assertEqual({event["pid"] for event in trace}, {0})
        shares = [float(s) for s in re.findall(r"(?m)^\w+ +[\d.]+ +[\d.]+ +([\d.]+)%",
                                               result.stdout)]
        self.assertAlmostEqual(sum(shares), 100, delta=0.1 * len(shares))


if __name__ == "__main__":
    main()
