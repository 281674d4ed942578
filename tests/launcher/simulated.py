#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep simulate`: what it prints, writes and refuses.

simulated.py PROGRAM Simulated
"""
import json

from program_test import ProgramTest, main
from reports import Page

SMALL = ("--model=mlp", "--global-batch=256", "--micro-batch=4")


class Simulated(ProgramTest):
    def simulate(self, *flags):
        return self.run_command([self.program, "simulate", *flags])

    def simulated(self, *flags):
        result = self.simulate("--json", *SMALL, *flags)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return json.loads(result.stdout)["runs"]

    def test_the_same_tree_of_sums_on_all_rank_counts(self):
        runs = self.simulated("--ranks=1,3,8,24", "--arrival-orders=3")
        self.assertEqual([run["ranks"] for run in runs], [1, 3, 8, 24])
        self.assertEqual(len({run["tree"] for run in runs}), 1)
        for run in runs:
            self.assertEqual(run["failures"], [])
            self.assertTrue(run["sums_checked"])
            self.assertEqual(run["arrival_orders"], 4)
        self.assertEqual([run["hosts"] for run in runs], [1, 1, 1, 3])
        self.assertGreater(runs[3]["step"]["network_bytes"], 0)
        self.assertEqual(runs[2]["step"]["network_bytes"], 0)

    def test_bytes_are_those_that_a_plan_has(self):
        plan = self.run_command([self.program, "plan", "--json", *SMALL, "--ranks=8", "--device=cpu"])
        planned = json.loads(plan.stdout)["exchange_bytes_per_step"]
        sent = self.simulated("--ranks=8", "--steps=10", "--no-sums")[0]["step"]["bytes"]
        # Agreements, norms for the noise scale and the end of the run come in addition.
        self.assertLess(abs(sent - planned) / planned, 0.05)

    def test_a_timeline(self):
        self.simulated("--hosts=2x4", "--no-sums", "--timeline=timeline.json")
        events = json.loads((self.folder / "timeline.json").read_text())["traceEvents"]
        names = {event["name"] for event in events if event["ph"] == "X"}
        self.assertLessEqual({"forward", "backward", "optimizer"}, names)
        ranks = {event["pid"] for event in events if event["ph"] == "X"}
        self.assertEqual(ranks, set(range(9)))  # the network is the ninth
        self.assertTrue(all(event["dur"] >= 0 for event in events if event["ph"] == "X"))

    def page(self, *flags):
        """Its text output, and its page."""
        result = self.simulate(*SMALL, "--arrival-orders=0", "--page=page.html", *flags)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        if not self.has_address_sanitizer():  # it warns of fibers
            self.assertEqual(result.stderr, "")
        page = Page((self.folder / "page.html").read_text(encoding="utf-8"))
        self.assertEqual(page.errors, [])
        self.assertNotIn("<", page.data)
        return result.stdout, page

    def timeline_of(self, page):
        (section,) = (one for one in page.document["sections"] if one["id"] == "step")
        (block,) = (block for block in section["blocks"] if block["kind"] == "timeline")
        return block

    def test_a_page_has_the_table_and_the_lines_of_the_text(self):
        text, page = self.page("--ranks=2,16")
        (table,) = (table for caption, table in page.tables.items() if "predicted" in caption)
        self.assertEqual(len(table["rows"]), 2)
        printed = [line.replace(" | ", " ").split() for line in text.splitlines()]
        for row in table["rows"]:
            self.assertIn(" ".join(row).split(), printed)
        for line in text.splitlines():
            if line.startswith(("training:", "growth:", "  predicted:")):
                self.assertIn(line, page.texts)
        self.assertEqual(len(self.timeline_of(page)["lanes"]), 16 * 3 + 2)  # of the last rank count
        self.assertNotIn("storms", [section["id"] for section in page.document["sections"]])

    def test_a_page_has_the_spans_of_the_timeline(self):
        _, page = self.page("--hosts=2x4", "--no-sums", "--timeline=timeline.json")
        block = self.timeline_of(page)
        lanes = {(lane["group"], lane["name"]): lane["spans"] for lane in block["lanes"]}
        streams = ("compute stream", "communication stream", "network stream")
        self.assertEqual(set(lanes), {(f"rank {rank}", stream) for rank in range(8) for stream in streams} |
                         {("network", "host 0"), ("network", "host 1")})
        self.assertLessEqual({"forward", "backward", "optimizer", "sent to other hosts"}, set(block["kinds"]))
        for lane in block["lanes"]:
            for span in lane["spans"]:
                self.assertGreaterEqual(span["begin"], block["begin"])
                self.assertLessEqual(span["begin"] + span["length"], block["end"] + 1e-5)
        events = json.loads((self.folder / "timeline.json").read_text())["traceEvents"]
        self.assertEqual(sorted(span["name"] for spans in lanes.values() for span in spans),
                         sorted(event["name"] for event in events if event["ph"] == "X"))
        self.assertIn("bytes", lanes[("network", "host 1")][0]["name"])

    def test_a_page_of_storms(self):
        (self.folder / "<b>.txt").write_text("1h rank-dies 17\n2h host-freezes 3 20s\n")
        text, page = self.page("--hosts=4x8", "--no-sums", "--faults=<b>.txt", "--storm-hours=3", "--seed=4")
        rows = page.tables["Faults of the storm with seed 4"]["rows"]
        self.assertEqual([row[1] for row in rows], ["rank-dies 17", "host-freezes 3 for 20 s"])
        self.assertEqual(rows[0][3], "rank 17 died")
        for line in text.splitlines():
            if "goodput" in line or line.startswith(("storm, seed", "detection of")):
                self.assertIn(line, page.texts)
        self.assertIn("with faults <b>.txt", page.text)
        text, page = self.page("--hosts=4x8", "--no-sums", "--faults=poisson:30m", "--storm-hours=2", "--storms=2",
                               "--seed=4")
        self.assertLessEqual({f"Faults of the storm with seed {seed}" for seed in (4, 5)}, set(page.tables))
        self.assertIn(text.splitlines()[-1], page.texts)  # of both storms

    def test_a_page_that_cannot_be_written(self):
        result = self.simulate(*SMALL, "--ranks=2", "--page=none/page.html")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("none/page.html", result.stderr)
        self.assertIn("samples/s", result.stdout)  # what was simulated is not lost

    def test_a_slower_network_takes_longer(self):
        fast = self.simulated("--hosts=4x2", "--no-sums", "--network=nvlink")[0]
        slow = self.simulated("--hosts=4x2", "--no-sums", "--network=ethernet")[0]
        self.assertGreater(slow["predicted_step_s"], fast["predicted_step_s"])
        self.assertEqual(slow["step"]["bytes"], fast["step"]["bytes"])

    def test_measured_kernels(self):
        """A run's kernels are those of the simulation; ranks that share a core take turns."""
        flags = (*SMALL, "--data=synthetic:28x28x1:10", "--steps=12")
        trained = self.run_command([self.program, "train", *flags, "--ranks=1", "--workers=0", "--profile", "--out=run"])
        self.assertEqual(trained.returncode, 0, trained.stderr)
        result = self.simulate("--json", *flags, "--ranks=1,4", "--kernel-times=run", "--cores=1", "--arrival-orders=0")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        one, four = (run["prediction"] for run in json.loads(result.stdout)["runs"])
        self.assertEqual((one["missing_kernels"], four["missing_kernels"]), (0, 0))
        self.assertGreater(one["measured_kernels"], 3)
        for prediction in (one, four):
            step = prediction["step_s"]
            self.assertTrue(0 < step["low"] <= step["median"] <= step["high"], step)
        self.assertGreater(four["step_s"]["median"], 0.8 * one["step_s"]["median"])  # the same core does all
        self.assertLess(four["efficiency"], 0.4)
        other = self.simulate("--model=convnet", "--ranks=2", "--kernel-times=run")
        self.assertEqual(other.returncode, 2, other.stdout + other.stderr)
        self.assertIn("none of the", other.stderr)

    def test_an_interval_of_steps_that_differ(self):
        step = self.simulated("--ranks=4", "--no-sums", "--spread=0.2", "--arrival-orders=0")[0]["prediction"]["step_s"]
        self.assertTrue(step["low"] < step["median"] < step["high"], step)
        step = self.simulated("--ranks=4", "--no-sums", "--arrival-orders=0")[0]["prediction"]["step_s"]
        self.assertLess(step["high"] - step["low"], 0.01 * step["median"])

    def test_bad_input(self):
        (self.folder / "holes.toml").write_text("ranks_per_host = 8\ninside_latency_us = 2\n")
        for flags, words in ((("--hosts=3x",), ("--hosts", "128x8", "3x")),
                             (("--hosts=3x8", "--ranks=25"), ("24 ranks", "--ranks")),
                             ((), ("--ranks", "--hosts")),
                             (("--ranks=8,x",), ("--ranks", "8,x")),
                             (("--ranks=20000",), ("16384",)),
                             (("--ranks=512",), ("256", "512")),
                             (("--ranks=4", "--shards=2"), ("shards",)),
                             (("--ranks=4", "--network=holes.toml"), ("holes.toml",)),
                             (("--ranks=4", "--micro-batch=auto"), ("--micro-batch",)),
                             (("--ranks=4", "--spread=-1"), ("--spread",)),
                             (("--ranks=4", "--kernel-times=none.json"), ("none.json", "--profile")),
                             (("--ranks=4", "--kernel-times=holes.toml"), ("holes.toml", "JSON")),
                             (("--ranks=4", "--kernel-times=holes.toml", "--device-rate=H100"), ("--device-rate",)),
                             (("--ranks=4", "--cores=2"), ("--cores", "--kernel-times")),
                             (("--ranks=4", "--core-turn=2"), ("--core-turn", "--cores")),
                             (("--ranks=4", "--contention=2"), ("--contention", "--cores"))):
            result = self.simulate("--model=mlp", *flags)
            self.assertEqual(result.returncode, 2, (flags, result.stdout, result.stderr))
            for word in words:
                self.assertIn(word, result.stderr, flags)

    def test_a_storm_of_a_file(self):
        (self.folder / "storm.txt").write_text("1h rank-dies 17  # one\n2h host-freezes 3 20s\n2.5h host-is-cut 1 5s\n")
        result = self.simulate("--json", *SMALL, "--hosts=4x8", "--no-sums", "--arrival-orders=0",
                               "--faults=storm.txt", "--storm-hours=3")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        (storm,) = json.loads(result.stdout)["storms"]
        dies, freezes, cut = storm["faults"]
        self.assertEqual((dies["named"], dies["verdict"], dies["right"]), (17, "died", True))
        self.assertIn(freezes["named"], range(24, 32))
        self.assertGreater(freezes["detected_s"], 9)
        self.assertIsNone(cut["named"])
        self.assertEqual((storm["restarts"], storm["wrongly_named"]), (2, 0))
        self.assertLess(storm["predicted_goodput"], 1)
        self.assertEqual(storm["lost_steps"], sum(fault["lost_steps"] for fault in storm["faults"]))

    def test_storms_are_drawn_by_the_seed(self):
        flags = ("--json", *SMALL, "--hosts=4x8", "--no-sums", "--arrival-orders=0", "--faults=poisson:30m", "--storm-hours=6")
        drawn = [json.loads(self.simulate(*flags, *more).stdout)["storms"]
                 for more in (("--seed=5", "--storms=2"), ("--seed=6",))]
        for storm in drawn[0] + drawn[1]:
            storm.pop("wall_s"), storm.pop("peak_bytes")
        self.assertEqual(drawn[0][1], drawn[1][0])
        self.assertNotEqual(drawn[0][0]["faults"], drawn[0][1]["faults"])

    def test_more_ranks_than_are_simulated(self):
        flags = ("--json", "--model=mlp", "--global-batch=1024", "--micro-batch=4", "--hosts=8x8", "--no-sums",
                 "--arrival-orders=0", "--faults=poisson:1h", "--storm-hours=2", "--exact-ranks=16")
        found = json.loads(self.simulate(*flags).stdout)
        self.assertEqual((found["runs"][0]["ranks"], found["storms"][0]["ranks"]), (16, 64))
        self.assertEqual(found["global_batch"], 256)

    def test_bad_storms(self):
        for text, words in (("1h rank-dies 32\n", ("line 1", "0 to 31")),
                            ("1h host-dies 4\n", ("line 1", "0 to 3")),
                            ("2h rank-dies 1\n1h rank-dies 1\n", ("line 2", "before")),
                            ("1h rank-dyes 1\n", ("line 1", "rank-dies")),
                            ("", ("no fault",))):
            (self.folder / "storm.txt").write_text(text)
            self.refuses(("--faults=storm.txt",), words)
        for flags, words in ((("--faults=none.txt",), ("none.txt", "poisson")),
                             (("--faults=poisson:soon",), ("soon", "7.9h")),
                             (("--faults=",), ("--faults",)),
                             (("--storms=2",), ("--storms", "--faults")),
                             (("--faults=poisson:1h", "--exact-ranks=5"), ("--exact-ranks", "32"))):
            self.refuses(flags, words)

    def refuses(self, flags, words):
        result = self.simulate(*SMALL, "--hosts=4x8", *flags)
        self.assertEqual(result.returncode, 2, (flags, result.stdout, result.stderr))
        for word in words:
            self.assertIn(word, result.stderr, flags)

    def test_a_timeline_that_cannot_be_written(self):
        result = self.simulate(*SMALL, "--ranks=2", "--timeline=none/timeline.json")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("none/timeline.json", result.stderr)

    def test_what_is_not_of_its_kind_is_kept(self):
        kept = self.write("notes.txt", "precious")
        for flag in ("--page", "--timeline"):
            self.refuses([f"{flag}=notes.txt"], (flag, "notes.txt", "already exists"))
        self.assertEqual(kept.read_text(), "precious")


if __name__ == "__main__":
    main()
