#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`--micro-batch auto` of the built program: measured once, kept from then on.

auto_batch.py PROGRAM AutoBatch|AutoBatchRanks
"""
import json
import re

from program_test import ProgramTest, main

FLAGS = ("--model=resnet20", "--data=synthetic:32x32x3:10", "--global-batch=24", "--momentum=0.9",
         "--workers=1", "--eval-every=0")


class Auto(ProgramTest):
    ranks = 1

    def run_flags(self, *flags, code=0):
        result = self.run_command([self.program, "train", f"--ranks={self.ranks}", *FLAGS, *flags],
                                  {"OMPI_ALLOW_RUN_AS_ROOT": "1",
                                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                                   "OMPI_MCA_rmaps_base_oversubscribe": "1",
                                   "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"})
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def summary(self, out):
        return json.loads((self.folder / out / "summary.json").read_text())

    def chosen(self, out):
        """The micro-batch in config.toml, which --config repeats the run with."""
        text = (self.folder / out / "config.toml").read_text()
        return int(re.search(r"^micro-batch = (\d+)$", text, re.MULTILINE)[1])


class KeptChoices:
    """What holds on any number of ranks."""

    def test_the_choice_is_printed_and_a_fixed_run_has_its_bits(self):
        result = self.run_flags("--micro-batch=auto", "--steps=2", "--out=measured")
        micro_batch = self.chosen("measured")
        self.assertIn(f"micro-batch auto: {micro_batch}; forward and backward of a step take",
                      result.stdout)
        self.assertRegex(result.stdout, rf"[0-9.]+ ms with {micro_batch}\b")
        self.assertEqual(24 % (micro_batch * self.ranks), 0)
        self.run_flags(f"--micro-batch={micro_batch}", "--steps=2", "--out=fixed")
        self.assertEqual(self.summary("measured")["weights_sha256"],
                         self.summary("fixed")["weights_sha256"])
        environment = json.loads((self.folder / "measured/environment.json").read_text())
        self.assertIn(f"micro-batch auto: {micro_batch}", environment["micro_batch_choice"])

    def test_a_run_that_goes_on_keeps_its_micro_batch(self):
        self.run_flags("--micro-batch=3", "--steps=4", "--out=whole")
        self.run_flags("--micro-batch=3", "--steps=4", "--out=run", "--checkpoint-every=2")
        last = self.folder / "run/checkpoints/step_00000004"
        for path in sorted(last.iterdir()):
            path.unlink()
        last.rmdir()
        result = self.run_flags("--micro-batch=auto", "--steps=4", "--out=run", "--resume=auto",
                                "--checkpoint-every=2")
        self.assertIn("micro-batch auto: 3, as the run had before", result.stdout)
        self.assertIn("2 steps done", result.stdout)
        self.assertEqual(self.summary("run")["weights_sha256"],
                         self.summary("whole")["weights_sha256"])


class AutoBatch(KeptChoices, Auto):
    def test_limits_are_kept_and_recomputation_comes_in(self):
        plan = json.loads(self.run_command([self.program, "plan", "--ranks=1", "--json",
                                            *FLAGS]).stdout)
        rows = {row["micro_batch"]: row for row in plan["micro_batches"]}
        limit = rows[8]["none"]["limited_bytes"]
        self.run_flags("--micro-batch=auto", f"--memory-limit={limit}", "--steps=1", "--out=small")
        self.assertLessEqual(self.chosen("small"), 8)
        self.assertLessEqual(self.summary("small")["planned_bytes"], limit)
        below = rows[1]["none"]["limited_bytes"] - 1
        result = self.run_flags("--micro-batch=auto", f"--memory-limit={below}", "--steps=1",
                                "--out=again")
        self.assertIn("with --recompute auto", result.stdout)
        self.assertLessEqual(self.summary("again")["planned_bytes"], below)
        self.run_flags("--micro-batch=auto", "--memory-limit=100KiB", "--steps=1", "--out=none",
                       code=4)
        self.assertFalse((self.folder / "none").exists())

    def test_what_it_cannot_be_given_with(self):
        result = self.run_flags("--micro-batch=auto", "--accumulation=2", "--steps=1", "--out=run")
        self.assertNotIn("micro-batch auto:", result.stdout)
        self.assertIn("2 micro-batches of 12", result.stdout)


class AutoBatchRanks(KeptChoices, Auto):
    ranks = 2

    def test_the_least_sharding_that_fits_has_the_same_bits(self):
        flags = ("--model=mlp", "--hidden=1024", "--micro-batch=4", "--steps=2")
        plan = lambda limit: json.loads(self.run_command(
            [self.program, "plan", "--ranks=2", "--json", *FLAGS, *flags, "--shard=auto",
             f"--memory-limit={limit}"]).stdout)
        roomy = plan("1GiB")
        below = roomy["limited_bytes"] - 1
        sharded = plan(below)
        # With sharded gradients as well, sums of six micro-batches take less.
        tight = plan(sharded["limited_bytes"] - 1)
        self.assertEqual([plan["shard"] for plan in (roomy, sharded, tight)],
                         ["none", "optimizer", "gradients"])
        self.assertLess(tight["limited_bytes"], sharded["limited_bytes"])
        self.assertGreater(tight["exchange_bytes_per_step"], sharded["exchange_bytes_per_step"])
        self.run_flags(*flags, "--shard=auto", "--out=roomy")
        result = self.run_flags(*flags, "--shard=auto", f"--memory-limit={below}", "--out=tight")
        self.assertIn("shard auto: optimizer", result.stdout)
        for out, sharding in (("roomy", "none"), ("tight", "optimizer")):
            self.assertRegex((self.folder / out / "config.toml").read_text(),
                             rf"(?m)^shard = '{sharding}'$")
        self.assertLessEqual(self.summary("tight")["planned_bytes"], below)
        self.assertEqual(self.summary("tight")["weights_sha256"],
                         self.summary("roomy")["weights_sha256"])
        # Both are chosen. Where no micro-batch fits without a sharded optimizer, not even one that is
        # recomputed, that is found before a micro-batch is said not to fit.
        least = [min(row[kind]["limited_bytes"] for row in plan["micro_batches"] for kind in ("none", "all"))
                 for plan in (roomy, sharded)]
        limit = sum(least) // 2
        self.assertLess(least[1], limit)
        small = ("--model=mlp", "--hidden=1024", "--steps=1")
        result = self.run_flags(*small, "--micro-batch=auto", "--shard=auto", f"--memory-limit={limit}",
                                "--out=both")
        self.assertIn("shard auto: optimizer", result.stdout)
        self.assertRegex((self.folder / "both/config.toml").read_text(), r"(?m)^shard = 'optimizer'$")
        self.assertLessEqual(self.summary("both")["planned_bytes"], limit)
        self.run_flags(*small, f"--micro-batch={self.chosen('both')}", "--out=fixed")
        self.assertEqual(self.summary("both")["weights_sha256"], self.summary("fixed")["weights_sha256"])


if __name__ == "__main__":
    main()
