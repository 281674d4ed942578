#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `lockstep plan` says, against what `lockstep train` then does.

planned.py PROGRAM Plan
"""
import json
import re

from program_test import ProgramTest, main

MIB = 1 << 20


class Plan(ProgramTest):
    def plan(self, *flags):
        return self.run_command([self.program, "plan", "--ranks=1", *flags])

    def planned(self, *flags):
        return super().planned("--ranks=1", *flags)

    def check_against_training(self, *flags):
        plan = self.planned("--by-layer", *flags)
        result = self.run_command([self.program, "train", "--ranks=1", "--steps=2", "--out=run",
                                   "--force", *flags])
        self.assertEqual(result.returncode, 0, result.stderr)
        summary = json.loads((self.folder / "run/summary.json").read_text())
        self.assertEqual(plan["arena_bytes"], summary["activation_bytes"])
        self.assertEqual(plan["planned_bytes"], summary["memory_planned_bytes"])
        self.assertEqual(plan["limited_bytes"], summary["planned_bytes"])
        line = next(line for line in self.log_of("run").splitlines() if line.startswith("memory "))
        self.assertIn("planned", line)
        self.assertIn("measured", line)
        categories = plan["categories"]
        self.assertEqual(sum(categories.values()), plan["total_bytes"])
        self.assertEqual(plan["total_bytes"] - categories["context_and_libraries"],
                         plan["planned_bytes"])
        for column in ("parameters", "gradients", "optimizer_state", "packed_copies",
                       "activations", "workspace", "input"):
            self.assertEqual(sum(row[column] for row in plan["layers"]), categories[column])
        above = summary["peak_memory_bytes"] - summary["memory_baseline_bytes"]
        self.assertGreater(above, 0.97 * plan["planned_bytes"])
        # Stacks, logs and the heap's own bookkeeping are not planned.
        if not self.has_address_sanitizer():
            self.assertLess(above, 1.03 * plan["planned_bytes"] + 8 * MIB)
        return plan

    def test_ranks_that_are_asked_for_count_under_a_launcher_too(self):
        flags = [self.program, "plan", "--json", "--model=mlp", "--ranks=4"]
        expected = json.loads(self.run_command(flags).stdout)
        self.assertGreater(expected["exchange_bytes_per_step"], 0)
        launched = self.run_command(flags, environment={
            "OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0",
            "OMPI_COMM_WORLD_LOCAL_RANK": "0"})
        self.assertEqual(json.loads(launched.stdout)["exchange_bytes_per_step"],
                         expected["exchange_bytes_per_step"])

    def test_training_uses_what_was_planned(self):
        self.check_against_training("--model=mlp", "--hidden=1500,1500", "--workers=0")
        self.check_against_training("--model=resnet18", "--stem=cifar", "--workers=1",
                                    "--data=synthetic:32x32x3:10", "--global-batch=24",
                                    "--micro-batch=8", "--momentum=0.9", "--precision=bf16")
        self.check_against_training("--model=resnet20", "--data=synthetic:32x32x3:10",
                                    "--global-batch=70", "--micro-batch=32", "--workers=1",
                                    "--recompute=all", "--optimizer=adamw")
        text = self.write("text.txt", "to be or not to be " * 400)
        self.check_against_training("--model=gpt", f"--data=text:{text}", "--layers=2",
                                    "--context=32", "--global-batch=8", "--micro-batch=4",
                                    "--workers=0", "--optimizer=adamw")

    def test_the_order_of_many_samples_is_planned(self):
        windows = 4_000_000
        tokens = self.folder / "tokens.bin"
        tokens.write_bytes(bytes(2 * 2 * windows))
        plan = self.check_against_training(
            "--model=gpt", f"--data=tokens:{tokens}", "--vocabulary=16", "--context=2", "--layers=1",
            "--width=32", "--heads=2", "--global-batch=8", "--workers=0", "--eval-every=0")
        self.assertGreater(plan["categories"]["loader"], 3 * windows)

    def test_what_json_has(self):
        plan = self.planned("--model=resnet18", "--memory-limit=1GiB", "--global-batch=64")
        for key in ("arena_bytes", "categories", "largest_micro_batch", "flops_per_step",
                    "exchange_bytes_per_step"):
            self.assertIn(key, plan)
        self.assertEqual(plan["exchange_bytes_per_step"], 0)
        rows = plan["micro_batches"]
        self.assertEqual([row["micro_batch"] for row in rows], [1, 2, 4, 8, 16, 32, 64])
        fitting = [row["micro_batch"] for row in rows
                   if row["none"]["limited_bytes"] <= plan["memory_limit"]]
        self.assertGreaterEqual(plan["largest_micro_batch"], max(fitting))
        self.assertLess(plan["largest_micro_batch"], 2 * max(fitting))
        self.assertGreater(plan["largest_micro_batch_recompute"], plan["largest_micro_batch"])
        self.assertIsNone(self.planned("--model=mlp")["largest_micro_batch"])
        self.assertGreater(self.planned("--model=mlp", "--ranks=4")["exchange_bytes_per_step"], 0)

    def test_without_data_samples_are_what_the_model_is_made_for(self):
        large = self.plan("--model=resnet18").stdout
        self.assertIn("224, 224, 3], 1000 classes", large)
        small = self.plan("--model=resnet18", "--image-size=64", "--classes=7").stdout
        self.assertIn("64, 64, 3], 7 classes", small)
        tokens = self.plan("--model=gpt2-124m", "--global-batch=2").stdout
        self.assertIn("i32[1024], 50257 different tokens", tokens)
        fewer = self.plan("--model=gpt", "--context=64", "--vocabulary=99").stdout
        self.assertIn("i32[64], 99 different tokens", fewer)
        self.expect_error(self.plan("--classes=7", "--data=glyphs"), 2, "--classes")
        self.expect_error(self.plan("--classes=7", "--model=gpt"), 2, "--vocabulary")

    def test_scaled_rates_are_those_of_the_run(self):
        flags = ("--model=mlp", "--global-batch=128", "--lr=0.1", "--lr-reference-batch=32")
        line = "lr 0.4 = 0.1 x 4, linear: global batch 128 / reference batch 32"
        self.assertIn(line, self.plan(*flags).stdout)
        self.assertNotIn("reference batch", self.plan(*flags[:-1]).stdout)
        train = [self.program, "train", "--ranks=1", "--data=glyphs", "--steps=2", "--log-every=1"]
        result = self.run_command([*train, "--out=run", *flags])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(line, self.log_of("run"))
        metrics = (self.folder / "run/metrics.jsonl").read_text().splitlines()
        rates = [json.loads(text)["lr"] for text in metrics if "lr" in json.loads(text)]
        self.assertAlmostEqual(rates[-1], 0.4, places=6)
        # A resumed run reads --lr, not the scaled one; another reference is another setting.
        resume = [*train[:3], "--steps=4", "--log-every=1", "--resume=run", "--out=run"]
        self.expect_error(self.run_command([*resume, "--lr-reference-batch=64"]), 2,
                          "--lr-reference-batch 32 then, 64 now")
        result = self.run_command(resume)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(line, self.log_of("run"))

    def test_a_gpu_that_is_not_here(self):
        resnet = ("--model=resnet18", "--device=cuda")
        result = self.plan(*resnet, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        plan = json.loads(result.stdout)
        if not plan["device"].endswith("none here"):
            self.skipTest("there is a GPU")
        for unknown in ("workspace", "packed_copies", "context_and_libraries"):
            self.assertIsNone(plan["categories"][unknown])
        self.assertFalse(plan["complete"])
        self.assertTrue(self.planned("--model=mlp", "--device=cpu")["complete"])
        text = self.plan(*resnet, "--memory-limit=16GiB").stdout
        for words in ("on the device, at least", "on the host  ", "takes at least", "and may fit",
                      "auto: at most "):
            self.assertIn(words, text)
        self.assertNotIn("planned  ", text)  # a sum over two memories
        device, host = (int(re.search(rf"^  on the {name} +([\d,]+) ", text, re.MULTILINE)[1]
                            .replace(",", "")) for name in ("device, at least", "host"))
        self.assertEqual(device, plan["limited_bytes"])
        self.assertEqual(device + host, plan["planned_bytes"])

    def test_recompute_that_fits_nothing_is_not_shown_as_a_plan(self):
        result = self.plan("--model=resnet18", "--global-batch=8", "--recompute=auto",
                           "--memory-limit=50MiB")
        self.assertIn("--recompute auto, which fits nothing: what comes closest", result.stdout)

    def test_limits_that_nothing_fits(self):
        tight = ("--model=resnet18", "--global-batch=64")
        least = self.planned(*tight, "--memory-limit=1GiB")["fixed_bytes"]
        below = self.plan(*tight, f"--memory-limit={least - MIB}")
        self.expect_error(below, 4, "at any micro-batch", "1.00 MiB more than the limit", "hint: ")
        close = self.plan(*tight, f"--memory-limit={least + MIB}")
        self.expect_error(close, 4, "with full recompute, which takes the least", "more than the limit")
        self.assertIn("largest", close.stdout)
        needed = int(close.stderr.split("--memory-limit of ")[1].split(" ")[0])
        enough = self.planned(*tight, "--recompute=auto", f"--memory-limit={needed}")
        self.assertGreaterEqual(enough["largest_micro_batch"], 1)
        self.expect_error(self.plan(*tight, "--recompute=auto", f"--memory-limit={needed // 2}"), 4,
                          f"a --memory-limit of {needed} suffices")
        for nonsense in ("12parsecs", "-5", "0", "nan", ""):
            self.expect_error(self.plan(f"--memory-limit={nonsense}"), 2, "--memory-limit")

    def forecast(self, *flags):
        result = self.run_command([self.program, "plan", "--json", "--model=mlp", *flags])
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["forecast"]

    def test_machines_that_are_not_here(self):
        forecast = self.forecast("--ranks=48", "--network=nvlink", "--global-batch=4800", "--shards=480",
                                 "--micro-batch=10", "--step-ms=8")
        self.assertEqual([row["ranks"] for row in forecast["rows"]], [1, 2, 4, 8, 16, 32, 48])
        self.assertTrue(forecast["network"]["assumed"])
        alone, last = forecast["rows"][0], forecast["rows"][-1]
        self.assertEqual(last["samples_per_rank"], 100)
        self.assertAlmostEqual(last["weak"]["compute_ms"], 8)  # what --step-ms said
        self.assertAlmostEqual(alone["strong"]["compute_ms"], 48 * 8)
        self.assertEqual(alone["strong"]["exposed_ms"], 0)
        # One step, whose efficiency is computed in two ways, each of a few roundings.
        strong, weak = ({**last[mode]} for mode in ("strong", "weak"))
        self.assertAlmostEqual(strong.pop("efficiency"), weak.pop("efficiency"), places=12)
        self.assertEqual(strong, weak)
        for row in forecast["rows"]:
            for mode in ("strong", "weak"):
                cost = row[mode]
                self.assertAlmostEqual(cost["step_ms"], cost["compute_ms"] + cost["exposed_ms"])
                self.assertLessEqual(cost["exposed_ms"], cost["communication_ms"])
                self.assertTrue(0 < cost["efficiency"] <= 1 + 1e-9, row)
        slower = self.forecast("--ranks=48", "--network=ethernet", "--global-batch=4800",
                               "--micro-batch=10", "--step-ms=8")["rows"][-1]
        self.assertGreater(slower["strong"]["communication_ms"],
                           last["strong"]["communication_ms"])
        text = self.plan("--model=mlp", "--network=ib", "--device=cpu").stdout  # compute from the peaks of this machine
        for words in ("assumed, not measured", "peaks measured here", "predicted, not measured",
                      "--device-rate"):
            self.assertIn(words, text)

    def test_what_the_exchange_does_between_hosts(self):
        flags = ("--network=ib", "--hidden=2048,2048", "--global-batch=768", "--micro-batch=4",
                 "--device-rate=0.05", "--device=cuda")
        if not self.planned("--model=mlp", "--device=cuda")["device"].endswith("none here"):
            self.skipTest("there is a GPU")
        aligned = self.forecast("--ranks=64", *flags)
        self.assertEqual([row["levels"] for row in aligned["rows"]], [1, 1, 1, 1, 2, 2, 2])
        fast = self.forecast("--ranks=64", *flags, "--reduction=fast")
        ratio = (aligned["rows"][-1]["strong"]["communication_ms"]
                 / fast["rows"][-1]["strong"]["communication_ms"])
        self.assertLess(ratio, 2)  # inside the host and then across it, each about what a ring takes
        # 64 shards on 24 ranks: each host sends several subtrees, and some ranks compute 3 shards.
        torn = self.forecast("--ranks=24", *flags)
        self.assertEqual(torn["rows"][-1]["levels"], 2)
        changes = {change["flags"].split()[0]: change for change in torn["changes"]}
        self.assertIn("--shards", changes)
        self.assertEqual([c["speedup"] for c in torn["changes"]],
                         sorted((c["speedup"] for c in torn["changes"]), reverse=True))
        now = torn["rows"][-1]["strong"]
        for flag, change in changes.items():
            self.assertGreaterEqual(change["speedup"], 1.05)
            if flag == "--network":
                continue
            # What is promised is what the plan with those flags says.
            name, value = change["flags"].split()
            kept = [f for f in flags if not f.startswith(name)]
            row = self.forecast("--ranks=24", *kept, f"{name}={value}")["rows"][-1]
            self.assertAlmostEqual(row["strong"]["step_ms"], change["step_ms"], places=6)
            factor = int(value) / 768 if name == "--global-batch" else 1
            self.assertAlmostEqual(change["speedup"],
                                   factor * now["step_ms"] / change["step_ms"], places=6)

    def test_hosts_and_balance(self):
        batch = ("--model=mlp", "--hidden=256", "--global-batch=1024", "--micro-batch=1")
        alone = self.planned(*batch, "--ranks=6")
        self.assertNotIn("hosts", alone)
        one = self.planned(*batch, "--ranks=6", "--ranks-per-host=8")["hosts"]
        self.assertEqual((one["count"], one["bytes_per_step"]), (1, 0))
        # 64 shards: 3, 5 and 3 subtrees of hosts; 24 shards: one each.
        torn = self.planned(*batch, "--ranks=24", "--ranks-per-host=8")
        even = self.planned(*batch, "--ranks=24", "--ranks-per-host=8", "--shards=24")
        uneven = self.planned(*batch, "--ranks=23", "--ranks-per-host=8")
        self.assertAlmostEqual(torn["balance"], 1024 / 24 / 48)
        self.assertAlmostEqual(even["balance"], 1024 / 24 / 43)
        self.assertEqual((torn["hosts"]["count"], torn["hosts"]["levels"]), (3, 2))
        self.assertEqual((uneven["hosts"]["count"], uneven["hosts"]["levels"]), (3, 1))
        self.assertLess(even["hosts"]["bytes_per_step"], torn["hosts"]["bytes_per_step"])
        self.assertLess(torn["hosts"]["bytes_per_step"], uneven["hosts"]["bytes_per_step"])
        # A sharded optimizer keeps both levels, and sends most weights in bf16.
        large = ("--model=mlp", "--hidden=1024,1024", "--global-batch=24", "--micro-batch=1",
                 "--ranks=24", "--ranks-per-host=8", "--precision=bf16")
        whole = self.planned(*large)["hosts"]
        sharded = self.planned(*large, "--shard=optimizer")["hosts"]
        self.assertEqual((whole["levels"], sharded["levels"]), (2, 2))
        self.assertLess(sharded["bytes_per_step"], 0.9 * whole["bytes_per_step"])
        text = self.plan(*batch, "--ranks=24", "--ranks-per-host=8").stdout
        for words in ("balance", "88.9%", "--shards 24", "99.2%", "--shards auto"):
            self.assertIn(words, text)
        self.assertEqual(self.planned(*batch, "--ranks=24", "--shards=auto")["shards"], 1024)
        here = self.planned(*batch, "--ranks=24", "--ranks-per-host=4", "--network=ib")
        self.assertEqual(here["forecast"]["network"]["ranks_per_host"], 4)
        self.expect_error(self.plan(*batch, "--ranks-per-host=0"), 2, "--ranks-per-host")

    def test_the_largest_micro_batch_of_any_number_of_shards(self):
        # Each halving of the micro-batch makes a partial sum more, beyond 64 shards as well.
        flags = ("--model=mlp", "--hidden=64", "--global-batch=16384", "--micro-batch=64",
                 "--shards=auto")
        limit = self.planned(*flags)["limited_bytes"]
        self.assertGreaterEqual(self.planned(*flags, f"--memory-limit={limit}")
                                ["largest_micro_batch"], 64)

    def test_whose_rate_computes(self):
        gpt = ("--model=gpt", "--layers=2", "--vocabulary=256", "--context=64", "--network=nvlink",
               "--ranks=16", "--global-batch=256", "--micro-batch=4")
        plans = {}
        for rate in ("A100", "H100", "h200", "B200", "400"):
            result = self.plan(*gpt, "--json", f"--device-rate={rate}", "--precision=bf16")
            self.assertEqual(result.returncode, 0, result.stderr)
            plans[rate] = json.loads(result.stdout)
            forecast = plans[rate]["forecast"]
            self.assertEqual(forecast["rate_source"], "device_rate")
            self.assertTrue(forecast["predicted"])
            # A number is of no device, whatever computes here.
            self.assertEqual(forecast.get("rate_device"), None if rate == "400" else rate.upper())
        def compute_ms(rate):
            return plans[rate]["forecast"]["rows"][0]["strong"]["compute_ms"]
        self.assertGreater(compute_ms("A100"), compute_ms("H100"))
        self.assertGreater(compute_ms("H100"), compute_ms("B200"))
        # A rate that is given is the FLOPs' alone.
        given = plans["400"]
        self.assertAlmostEqual(compute_ms("400") / 1e3 * 400e12 / given["flops_per_step"], 1,
                               delta=0.02)
        for rate, limit in (("A100", 80e9), ("H100", 80e9), ("B200", 180e9)):
            self.assertEqual(plans[rate]["memory_limit"], limit)
        if plans["H100"]["device"].endswith("none here"):
            self.assertEqual(plans["B200"]["forecast"]["network"]["inside"]["bandwidth_GBps"], 900)
        text = self.plan(*gpt, "--device-rate=H100").stdout
        for words in ("predicted for H100", "40%", "assumptions"):
            self.assertIn(words, text)
        measured = self.forecast("--network=ib", "--ranks=2", "--device=cpu", "--step-ms=5")
        self.assertNotIn("rate_device", measured)
        here = self.forecast("--network=ib", "--ranks=2", "--device=cpu")
        self.assertEqual(here["rate_source"], "measured_peaks")
        self.assertTrue(here["rate_device"].startswith("cpu"), here)
        network = ("--model=mlp", "--ranks=2", "--network=ib")
        for value in ("H10O", "0", "-3", "nan", "1e9", ""):
            self.expect_error(self.plan(*network, f"--device-rate={value}"), 2, "--device-rate")
        self.expect_error(self.plan("--model=mlp", "--device-rate=H100"), 2, "--network")
        self.expect_error(self.plan(*network, "--device-rate=H100", "--step-ms=5"), 2,
                          "--device-rate")
        self.expect_error(self.plan(*network, "--device-rate=H100", "--device=cpu"), 2,
                          "--device cpu")

    def test_a_hundred_thousand_ranks(self):
        forecast = self.forecast("--ranks=100000", "--network=ib", "--global-batch=200000",
                                 "--micro-batch=2", "--step-ms=5")
        self.assertEqual(forecast["rows"][-1]["ranks"], 100000)
        self.expect_error(self.plan("--ranks=100001", "--network=ib", "--global-batch=200002",
                                    "--micro-batch=2", "--model=mlp"), 2, "up to 100000 ranks")

    def test_a_network_of_ones_own(self):
        self.write("slow.toml", "# two rooms\nranks_per_host = 1\nbetween_latency_us = 100\n"
                                "between_bandwidth_GBps = 0.01\n")
        row = self.forecast("--ranks=2", "--network=slow.toml", "--hidden=512,512",
                            "--step-ms=1")["rows"][1]
        sent = self.planned("--ranks=2", "--model=mlp",
                            "--hidden=512,512")["exchange_bytes_per_step"]
        # What a rank sends at 10 MB/s, and some messages of 100 us.
        self.assertGreaterEqual(row["strong"]["communication_ms"], sent / 1e7 * 1e3)
        self.assertLess(row["strong"]["communication_ms"], sent / 1e7 * 1e3 * 1.1 + 2)

    def test_networks_that_are_none(self):
        network = ("--model=mlp", "--ranks=2")
        self.expect_error(self.plan(*network, "--network=nvlin"), 2, "nvlin", "nvlink")
        self.expect_error(self.plan(*network, "--network=missing.toml"), 2, "missing.toml")
        self.expect_error(self.plan(*network, "--step-ms=5"), 2, "--network")
        for value in ("0", "-1", "nan", "soon"):
            self.expect_error(self.plan(*network, "--network=ib", f"--step-ms={value}"), 2,
                              "--step-ms")
        whole = {"ranks_per_host": "8", "inside_latency_us": "1", "inside_bandwidth_GBps": "9",
                 "between_latency_us": "1", "between_bandwidth_GBps": "9"}
        for key, value in (("ranks_per_host", "1.5"), ("ranks_per_host", "0"),
                           ("inside_latency_us", "-1"), ("between_bandwidth_GBps", "0"),
                           ("between_bandwidth_GBps", "fast"), ("inside_bandwidth_GBps", None)):
            lines = {k: v for k, v in {**whole, key: value}.items() if v is not None}
            self.write("bad.toml", "".join(f"{k} = {v}\n" for k, v in lines.items()))
            self.expect_error(self.plan(*network, "--network=bad.toml"), 2, "bad.toml", key)
        self.write("bad.toml", "[section]\n")
        self.expect_error(self.plan(*network, "--network=bad.toml"), 2, "bad.toml", "line 1")
        self.write("bad.toml", "ranks_per_hosts = 8\n")
        self.expect_error(self.plan(*network, "--network=bad.toml"), 2, "ranks_per_host?")
        (self.folder / "bad.toml").write_bytes(bytes(range(256)) * 10)
        self.expect_error(self.plan(*network, "--network=bad.toml"), 2, "bad.toml")
        gpu = self.plan(*network, "--network=ib", "--device=cuda")
        if "no device of the kind" in gpu.stderr:
            self.expect_error(gpu, 2, "--step-ms", "--device-rate")

    def test_refusals(self):
        self.expect_error(self.plan("--ranks=1024", "--network=ib"), 2, "global-batch 256")
        self.expect_error(self.plan("--ranks=128", "--global-batch=256", "--micro-batch=2"), 2,
                          "--shards 128")
        self.expect_error(self.plan("--modle=mlp"), 2, "did you mean --model")
        self.expect_error(self.plan("--global-batch=2", "--ranks=3"), 2, "global-batch")
        self.expect_error(self.plan("--data=csv:nowhere.csv", "--model=mlp"), 1, "nowhere.csv")
        self.assertEqual(self.plan("--help").returncode, 0)


if __name__ == "__main__":
    main()
