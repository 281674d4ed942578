#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where memory lacks: what is said, and that the proposed command line works.

out_of_memory.py PROGRAM OutOfMemory|OutOfMemoryRanks
"""
import json
import os
import pathlib
import re
import resource
import subprocess
import time

from program_test import TIMEOUT_S, ProgramTest, clean_environment, main

MIB = 1 << 20
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
RESNET = ("--model=resnet20", "--data=synthetic:32x32x3:10", "--workers=1")
SMALL = (*RESNET, "--global-batch=24", "--micro-batch=12")
LARGE = (*RESNET, "--global-batch=512", "--micro-batch=512")  # half a GiB or more
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def bytes_of(words):
    number, unit = words.split()
    return float(number) * UNITS[unit]


class Short(ProgramTest):
    ranks = 1

    def command(self, *flags):
        return [self.program, "train", f"--ranks={self.ranks}", "--steps=1", "--eval-every=0",
                *flags]

    def run_flags(self, *flags, **options):
        return self.run_command(self.command(*flags), ROOT, **options)

    def planned(self, *flags):
        result = self.run_command([self.program, "plan", "--json", f"--ranks={self.ranks}", *flags])
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def device_bytes(self, *flags):
        return self.planned(*flags)["limited_bytes"]

    def refused(self, result, *texts):
        """The proposed flags."""
        self.expect_error(result, 4, "memory of rank 0 as planned", "parameters", "activations",
                          "on the device", "free now", "others there", *texts)
        hint = re.search(r"^hint: (.*)$", result.stderr, re.MULTILINE)
        self.assertTrue(hint, result.stderr)
        proposal = re.search(r"`([^`]+)` keeps the global batch of (\d+)", hint[1])
        self.assertTrue(proposal, hint[1])
        self.categories_add_up(result.stderr)
        return proposal[1].split(), int(proposal[2]), hint[1]

    def categories_add_up(self, text):
        table = dict(re.findall(r"^  ([a-z ]+?)  +([\d,]+) ", text, re.MULTILINE))
        table = {name: int(number.replace(",", "")) for name, number in table.items()}
        total = table.pop("total")
        planned, device = table.pop("planned"), table.pop("on the device")
        context = table.pop("context and libraries")
        self.assertEqual(sum(table.values()), planned)
        on_host = table["checkpoint snapshot"] + table["loader"] + table["image decoding"]
        self.assertEqual(planned - on_host, device)
        self.assertEqual(planned + context, total)

    def check_it_works(self, result, global_batch, run, *texts):
        """Runs the flags that `result` proposes with `run`."""
        flags, kept, hint = self.refused(result, *texts)
        self.assertEqual(kept, global_batch)
        again = run(*flags, "--out=again", "--force")
        self.assertEqual(again.returncode, 0, f"{flags}:\n{again.stderr}")
        config = (self.folder / "again/config.toml").read_text()
        self.assertIn(f"global-batch = {global_batch}\n", config)
        summary = json.loads((self.folder / "again/summary.json").read_text())
        self.assertEqual(summary["steps"], 1)
        return flags, hint, summary

    def refusing(self, least):
        """Variables with which a process is refused that many bytes."""
        library = pathlib.Path(self.program).parent / "tests/launcher/librefused_memory.so"
        if self.has_address_sanitizer():
            self.skipTest("the address sanitizer wants to be loaded first")
        self.assertTrue(library.exists(), f"{library} is not built")
        return {"LD_PRELOAD": str(library), "REFUSED_BYTES": str(least)}

    def check_limit(self, limit, *flags, global_batch=24):
        """A --memory-limit that is too small."""
        short = (*flags, f"--memory-limit={limit}")
        result = self.run_flags(*short, "--out=short")
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertFalse((self.folder / "short").exists(), "a refused start leaves its folder")
        proposed, hint, summary = self.check_it_works(
            result, global_batch, lambda *more: self.run_flags(*short, *more))
        self.assertLessEqual(summary["planned_bytes"], limit)
        saved = bytes_of(re.search(r"needs ([\d.]+ \w+) less", hint)[1])
        asked = self.planned(*flags)["planned_bytes"]
        self.assertAlmostEqual(saved / (asked - summary["memory_planned_bytes"]), 1, delta=0.01)
        return proposed


    def check_group(self, *texts):
        """A control group that holds less than the plan: nobody may be killed."""
        plan = self.planned(*LARGE, f"--micro-batch={512 // self.ranks}")
        needed = plan["planned_bytes"] * self.ranks
        group = self.make_group(needed * 3 // 4)

        def confined(*flags):
            return self.run_command(
                ["sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', group,
                 *self.command(*LARGE, f"--micro-batch={512 // self.ranks}", *flags)], ROOT)

        result = confined("--out=short")
        self.check_it_works(result, 512, confined, *texts)

    def make_group(self, limit):
        name = f"lockstep-test-{os.getpid()}"
        for folder, file in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                             ("/sys/fs/cgroup", "memory.max")):
            group = pathlib.Path(folder) / name
            try:
                group.mkdir()
            except OSError:
                continue
            self.addCleanup(lambda path=group: path.rmdir() if path.exists() else None)
            if (group / file).exists():
                (group / file).write_text(str(limit))
                return group
        self.skipTest("no control groups can be made here")


class OutOfMemory(Short):
    def test_limits_that_a_smaller_micro_batch_fits(self):
        text = self.write("text.txt", "to be or not to be " * 400)
        gpt = ("--model=gpt", f"--data=text:{text}", "--layers=2", "--context=64",
               "--global-batch=16", "--micro-batch=16", "--workers=0", "--optimizer=adamw")
        half = self.device_bytes(*gpt, "--micro-batch=8")
        self.assertEqual(self.check_limit(half, *gpt, global_batch=16),
                         ["--micro-batch", "8", "--accumulation", "2"])
        half = self.device_bytes(*SMALL, "--micro-batch=7")
        self.assertEqual(self.check_limit(half, *SMALL),
                         ["--micro-batch", "6", "--accumulation", "4"])
        convnet = ("--model=convnet", "--data=glyphs", "--global-batch=60", "--micro-batch=60",
                   "--workers=0", "--precision=bf16")
        third = self.device_bytes(*convnet, "--micro-batch=21")
        self.assertEqual(self.check_limit(third, *convnet, global_batch=60),
                         ["--micro-batch", "20", "--accumulation", "3"])

    def test_a_limit_that_only_recomputation_fits(self):
        below = self.device_bytes(*SMALL, "--micro-batch=1") - 1
        flags = self.check_limit(below, *SMALL)
        self.assertIn("--recompute", flags)
        self.assertNotIn("--memory-limit", flags)

    def test_a_batch_that_nothing_divides(self):
        seven = (*RESNET, "--global-batch=7", "--micro-batch=7")
        flags = self.check_limit(self.device_bytes(*seven, "--micro-batch=5"), *seven,
                                 global_batch=7)
        self.assertEqual(flags, ["--micro-batch", "5"])

    def test_what_fits_in_no_way(self):
        limit = self.device_bytes(*SMALL, "--micro-batch=4", "--recompute=all") // 2
        result = self.run_flags(*SMALL, "--optimizer=adamw", f"--memory-limit={limit}")
        self.expect_error(result, 4, "even a micro-batch of ", "with full recompute",
                          "a smaller model (parameters, gradients and optimizer state alone take")
        takes, missing, more = re.search(
            r"least, takes (\S+ \S+), (\S+ \S+) too much; what would help: (\S+ \S+) more",
            result.stderr).groups()
        self.assertAlmostEqual(bytes_of(takes) - bytes_of(missing), limit, delta=0.02 * limit)
        self.assertEqual(missing, more)

    def test_settings_that_would_help_do(self):
        text = self.write("text.txt", "to be or not to be " * 400)
        wide = ("--model=gpt", f"--data=text:{text}", "--layers=1", "--context=16", "--width=384",
                "--global-batch=2", "--workers=0", "--optimizer=adamw")
        result = self.run_command([self.program, "plan", "--json", "--ranks=1", *wide,
                                   "--micro-batch=1", "--recompute=all"])
        needed = json.loads(result.stdout)
        limit = needed["limited_bytes"] - needed["categories"]["optimizer_state"] // 2
        result = self.run_flags(*wide, f"--memory-limit={limit}")
        self.expect_error(result, 4, "even a micro-batch of ")
        flags = re.search(r"`([^`]+)`, which changes what is trained and fits", result.stderr)[1]
        self.assertTrue(flags.startswith("--optimizer sgd --momentum 0"), flags)
        again = self.run_flags(*wide, f"--memory-limit={limit}", *flags.split(), "--out=again")
        self.assertEqual(again.returncode, 0, again.stderr)

    def test_all_that_a_setting_takes_to_fit_is_printed(self):
        deep = (*RESNET, "--global-batch=16", "--micro-batch=16", "--optimizer=adamw")
        least = min(row["all"]["limited_bytes"] for row in self.planned(*deep)["micro_batches"])
        state = self.planned(*deep)["categories"]["optimizer_state"]
        result = self.run_flags(*deep, f"--memory-limit={least - state // 4}")
        self.expect_error(result, 4, "even a micro-batch of ")
        proposals = re.findall(r"`([^`]+)`, which changes what is trained and fits", result.stderr)
        self.assertTrue(proposals, result.stderr)
        self.assertTrue(any("--micro-batch" in flags for flags in proposals), proposals)
        for flags in proposals:
            again = self.run_flags(*deep, f"--memory-limit={least - state // 4}", *flags.split(),
                                   "--out=again", "--force")
            self.assertEqual(again.returncode, 0, f"{flags}:\n{again.stderr}")

    def test_a_limit_that_is_too_small_where_there_is_still_less_room(self):
        planned = self.planned(*LARGE)
        room = self.address_space("VmPeak", *SMALL) + planned["planned_bytes"] // 2
        limit = f"--memory-limit={planned['limited_bytes'] - 1}"

        def limited(*flags):
            return self.run_flags(*LARGE, limit, *flags, preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_AS, (room, room)))

        result = limited("--out=short")
        self.check_it_works(result, 512, limited, "the limit is")

    def test_a_limit_of_address_space(self):
        self.check_own_limit(resource.RLIMIT_AS, "VmPeak")

    def test_a_limit_of_data(self):
        if self.has_address_sanitizer():
            self.skipTest("the address sanitizer's own memory is in no plan")
        self.check_own_limit(resource.RLIMIT_DATA, "VmData")

    def check_own_limit(self, kind, counted):
        limit = self.address_space(counted, *SMALL) + self.planned(*LARGE)["planned_bytes"] // 2

        def limited(*flags):
            return self.run_flags(*LARGE, *flags, preexec_fn=lambda: resource.setrlimit(
                kind, (limit, limit)))

        result = limited("--out=short")
        flags, _, _ = self.check_it_works(result, 512, limited, "ulimit -v or -d", "[rank 0 ")
        self.assertIn("--micro-batch", flags)

    def address_space(self, counted, *flags):
        """What the process takes in addition to its plan."""
        run = subprocess.Popen([str(part) for part in self.command(*flags, "--out=base")],
                               cwd=self.folder, env=clean_environment(),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        peak, give_up = 0, time.monotonic() + TIMEOUT_S
        while run.poll() is None and time.monotonic() < give_up:
            try:
                status = pathlib.Path(f"/proc/{run.pid}/status").read_text()
            except OSError:
                break
            found = re.search(counted + r":\s+(\d+) kB", status)
            peak = max(peak, int(found[1]) << 10 if found else 0)
            time.sleep(0.001)
        self.assertEqual(run.wait(timeout=TIMEOUT_S), 0)
        return peak - self.planned(*flags)["planned_bytes"]

    def test_a_control_group(self):
        self.check_group("[rank 0 ")

    def test_memory_that_is_gone_when_it_is_wanted(self):
        arena = self.planned(*LARGE)["arena_bytes"]

        def refused(*flags):
            return self.run_command(self.command(*LARGE, *flags),
                                    {**ROOT, **self.refusing(arena)})

        self.check_it_works(refused("--out=short"), 512, refused,
                            f"activations and workspace: {arena} bytes of memory wanted")

    def test_what_plan_proposes_fits(self):
        limit = self.device_bytes(*SMALL, "--micro-batch=7")
        result = self.run_command([self.program, "plan", "--ranks=1", *SMALL,
                                   f"--memory-limit={limit}"])
        self.assertEqual(result.returncode, 0, result.stderr)
        flags = re.search(r"^so +`([^`]+)` keeps", result.stdout, re.MULTILINE)[1].split()
        self.assertLessEqual(self.device_bytes(*SMALL, *flags), limit)

    def test_between_two_micro_batches_that_can_be_planned(self):
        grouped = (*SMALL, "--batch-norm=group:4")
        least = min(row["all"]["limited_bytes"]
                    for row in self.planned(*grouped)["micro_batches"])
        result = self.run_command([self.program, "plan", "--ranks=1", *grouped,
                                   f"--memory-limit={least - 50000}"])
        text = result.stdout + result.stderr
        self.assertNotRegex(text, r"-\d")
        self.assertEqual(result.returncode, 4, text)
        self.assertIn("with full recompute, which takes the least", text)


class OutOfMemoryRanks(Short):
    ranks = 2

    def test_limits(self):
        if self.has_address_sanitizer():
            self.skipTest("plans take longer there than the second that a proposal may take")
        half = self.device_bytes(*SMALL, "--micro-batch=7")
        self.assertEqual(self.check_limit(half, *SMALL),
                         ["--micro-batch", "6", "--accumulation", "2"])
        seven = (*RESNET, "--global-batch=7", "--micro-batch=4")
        self.assertEqual(self.check_limit(self.device_bytes(*seven, "--micro-batch=3"), *seven,
                                          global_batch=7), ["--micro-batch", "3"])

    def test_fewer_ranks_where_nothing_else_fits(self):
        wide = ("--model=mlp", "--hidden=4000,4000", "--data=glyphs", "--global-batch=4",
                "--micro-batch=1", "--workers=0")
        self.ranks = 2
        first = self.planned(*wide)
        other = first["planned_bytes"] - first["categories"]["checkpoint_snapshot"]
        self.ranks = 4
        # For two ranks and a half. Four have 60 MiB of program and MPI each.
        group = self.make_group(first["planned_bytes"] + int(1.5 * other) + 4 * 60 * MIB)

        def confined(*flags):
            return self.run_command(
                ["sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', group,
                 *self.command(*wide, *flags)], ROOT)

        result = confined("--out=short")
        flags, hint, _ = self.check_it_works(result, 4, confined)
        self.assertEqual(flags[0], "--ranks")
        self.assertIn(flags[1], ("1", "2", "3"))
        self.assertIn("leaves each rank the", hint)

    def test_limits_of_four_ranks(self):
        if self.has_address_sanitizer():
            self.skipTest("plans take longer there than the second that a proposal may take")
        self.ranks = 4
        flags = (*SMALL, "--micro-batch=6")
        half = self.device_bytes(*SMALL, "--micro-batch=5")
        self.assertEqual(self.check_limit(half, *flags),
                         ["--micro-batch", "3", "--accumulation", "2"])

    def test_one_rank_with_little_memory_is_named(self):
        flags = [flag for flag in self.command(*LARGE, "--micro-batch=256", "--out=run")
                 if not flag.startswith("--ranks")]
        limit = self.rank_address_space() + 200 * MIB
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "1", *flags, ":", "-np",
                   "1", "prlimit", f"--as={limit}", *flags]
        result = self.run_command(command, ROOT)
        self.refused(result, "[rank 1 ", "seen by rank 0", "ulimit -v or -d")

    def test_one_rank_whose_memory_is_gone_ends_all(self):
        flags = [flag for flag in self.command(*LARGE, "--micro-batch=256", "--out=run")
                 if not flag.startswith("--ranks")]
        arena = self.planned(*LARGE, "--micro-batch=256")["arena_bytes"]
        variables = [f"{name}={value}" for name, value in self.refusing(arena).items()]
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "1", *flags, ":", "-np",
                   "1", "env", *variables, *flags]
        began = time.monotonic()
        result = self.run_command(command, ROOT)
        self.assertLess(time.monotonic() - began, 60)
        # Not advice: what that finds in its time depends on the machine.
        self.expect_error(result, 4, "[rank 1 ", f"{arena} bytes of memory wanted",
                          "memory of rank 0 as planned", "activations", "free now", "hint: ")

    def rank_address_space(self):
        """What a rank takes in addition to its plan, under mpirun."""
        run = subprocess.Popen(
            ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "2", self.program, "train",
             *SMALL, "--steps=1", "--eval-every=0", "--out=base"],
            cwd=self.folder, env={**clean_environment(), **ROOT}, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        peak, give_up = 0, time.monotonic() + TIMEOUT_S
        while run.poll() is None and time.monotonic() < give_up:
            for entry in pathlib.Path("/proc").glob("[0-9]*/status"):
                try:
                    status = entry.read_text()
                except OSError:
                    continue
                if f"\nPPid:\t{run.pid}\n" in status:
                    found = re.search(r"VmPeak:\s+(\d+) kB", status)
                    peak = max(peak, int(found[1]) << 10 if found else 0)
            time.sleep(0.01)
        self.assertEqual(run.wait(timeout=TIMEOUT_S), 0)
        return peak - self.planned(*SMALL)["planned_bytes"]

    def test_a_control_group_that_ranks_share(self):
        if self.has_address_sanitizer():
            self.skipTest("the address sanitizer's own memory is in no plan")
        self.check_group("half of the memory that its 2 ranks share")


if __name__ == "__main__":
    main()
