#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lockstep report on runs of the built program: what the page holds, several runs, a run that is
running, damaged folders, and outputs that are there already.

reports.py PROGRAM Reports|ReportRanks
"""
import csv
import html.parser
import json
import os
import shutil
import signal
import subprocess
import time

from program_test import ProgramTest, clean_environment, csv_text, main

VOID = {"meta", "br"}


class Page(html.parser.HTMLParser):
    """Reads a page strictly: elements that are not closed, ids that are there twice and addresses
    of other files are errors. Its data is JSON in an element of its own."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.errors, self.count = [], set(), [], {}
        self.data, self.in_data = "", False
        self.feed(text)
        self.close()
        if self.open:
            self.errors.append(f"not closed: {self.open}")
        self.document = json.loads(self.data)
        self.texts, self.charts, self.tables = [], {}, {}
        self.collect(self.document)

    def handle_starttag(self, tag, attributes):
        names = dict(attributes)
        if len(names) != len(attributes):
            self.errors.append(f"an attribute twice: {attributes}")
        self.count[tag] = self.count.get(tag, 0) + 1
        if "id" in names:
            if names["id"] in self.ids:
                self.errors.append(f"id twice: {names['id']}")
            self.ids.add(names["id"])
        for name in ("src", "href", "xlink:href"):
            if name in names and not names[name].startswith("#"):
                self.errors.append(f"elsewhere: {names[name]}")
        for name in names:
            if name.startswith("on"):
                self.errors.append(f"{tag} {name}")
        self.in_data = names.get("id") == "data"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.errors.append(f"</{tag}> at {self.getpos()}")
        self.in_data = False

    def handle_data(self, data):
        if self.in_data:
            self.data += data

    def collect(self, part):
        """Texts, charts by id and tables by caption."""
        if isinstance(part, str):
            self.texts.append(part)
        elif isinstance(part, list):
            for element in part:
                self.collect(element)
        elif isinstance(part, dict):
            if "type" in part:
                if part["id"] in self.charts:
                    self.errors.append(f"chart twice: {part['id']}")
                self.charts[part["id"]] = part
            if "caption" in part:
                self.tables[part["caption"]] = part
            for element in part.values():
                self.collect(element)

    @property
    def text(self):
        return " ".join(self.texts)


class Reported(ProgramTest):
    def report(self, *arguments):
        return self.run_command([self.program, "report", *arguments])

    def trained(self, name, *flags):
        result = self.train(f"--out={name}", *(flags if any("--steps" in f for f in flags) else
                                               ("--steps=60", "--log-every=1", *flags)))
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.folder / name

    def page(self, name="run/report.html"):
        text = (self.folder / name).read_text(encoding="utf-8")
        page = Page(text)
        self.assertEqual(page.errors, [])
        self.assertNotIn("<", page.data)
        self.assertGreater(len(page.charts), 0)
        for chart in page.charts.values():
            self.assertTrue(chart["title"] and chart["description"], chart["id"])
            self.assertGreater(len(chart["table"]["rows"]), 0)
        for words in ("prefers-color-scheme: dark", "@media print", "default-src 'none'"):
            self.assertIn(words, text)
        return page


class Reports(Reported):
    def test_a_run(self):
        self.trained("run", "--lr=0.3", "--checkpoint-every=20")
        before = {p.name: p.stat().st_mtime_ns for p in (self.folder / "run").iterdir()}
        result = self.report("run")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("run/report.html", result.stdout)
        memory = json.loads((self.folder / "run/memory.json").read_text())
        self.assertEqual(len(memory["live_bytes"]), len(memory["nodes"]))
        self.assertLessEqual(max(memory["live_bytes"]), memory["arena_bytes"])
        self.assertGreater(min(memory["live_bytes"]), 0)
        after = {p.name: p.stat().st_mtime_ns for p in (self.folder / "run").iterdir()}
        self.assertEqual(after.pop("report.html") > 0 and after, before)
        page = self.page()
        summary = json.loads((self.folder / "run/summary.json").read_text())
        for words in ("Run run", "ended after 60 steps", "mlp", "Loss", "Accuracy", "Throughput",
                      "Where the time goes", "forward", "Gradient norm", "Learning rate", "Memory over one step",
                      summary["weights_sha256"], f"csv:{self.table}",
                      f"{100 * summary['val_accuracy']:.4g}%"):
            self.assertIn(words, page.text)
        self.assertNotIn("still running", page.text)
        lines = (self.folder / "run/metrics.jsonl").read_text().splitlines()
        steps = [line for line in map(json.loads, lines) if "loss" in line]
        for chart, name in (("loss", "loss"), ("accuracy", "accuracy"), ("lr", "lr")):
            series = page.charts[chart]["series"][0]
            self.assertEqual(series["x"], [step["step"] for step in steps])
            for drawn, step in zip(series["y"], steps):
                self.assertAlmostEqual(drawn, step[name], delta=1e-5 * abs(step[name]))

    def test_four_runs(self):
        rates = ("0.05", "0.1", "0.2", "0.4")
        for rate in rates:
            self.trained(f"lr_{rate}", f"--lr={rate}")
        result = self.report(*(f"lr_{rate}" for rate in rates), "--out=four.html")
        self.assertEqual(result.returncode, 0, result.stderr)
        page = self.page("four.html")
        self.assertIn("Comparison of 4 runs", page.text)
        self.assertIn(["lr", *rates], page.tables["Settings and machines that differ"]["rows"])
        names = [series["name"] for series in page.charts["loss"]["series"]]
        self.assertEqual(names, [f"lr_{rate}" for rate in rates])
        for rate in rates:
            self.assertFalse((self.folder / f"lr_{rate}/report.html").exists())

    def test_a_folder_of_runs(self):
        for name in ("runs/a", "runs/b"):
            self.trained(name, "--steps=4", "--log-every=1")
        self.write("runs/notes/readme", "")
        self.write("runs/readme", "")
        shutil.copytree(self.folder / "runs/a", self.folder / "runs/c")
        damaged = '{"step":2,"loss":1}\n{"step":1,"loss":1}\n'
        self.write("runs/c/metrics.jsonl", damaged)
        result = self.report("runs", "--csv=all.csv")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("Comparison of 2 runs", self.page("runs/report.html").text)
        self.assertRegex(result.stdout, r"(?m)^runs +2 in runs$")
        skipped = [line for line in result.stdout.splitlines() if line.startswith("skipped")]
        self.assertEqual(len(skipped), 2, skipped)
        self.assertTrue("runs/notes" in skipped[0] and "runs/c" in skipped[1], skipped)
        with open(self.folder / "all.csv", encoding="utf-8", newline="") as file:
            self.assertEqual({row["run"] for row in csv.DictReader(file)}, {"runs/a", "runs/b"})
        shutil.rmtree(self.folder / "runs/c")
        for i in range(17):
            shutil.copytree(self.folder / "runs/a", self.folder / f"runs/copy_{i:02}")
            os.utime(self.folder / f"runs/copy_{i:02}/metrics.jsonl", (2_000_000_000 + i,) * 2)
        result = self.report("runs", "--out=many.html")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"(?m)^runs +16 in runs$")
        for older in ("runs/a", "runs/b", "runs/copy_00"):
            self.assertRegex(result.stdout, f"(?m)^skipped +{older}: older")
        for file in self.folder.glob("runs/*/metrics.jsonl"):
            file.write_text(damaged)
        self.expect_error(self.report("runs", "--out=none.html"), 1, "no run in it can be read")

    def test_a_run_that_runs(self):
        command = self.train_arguments("--steps=100000000", "--log-every=1", "--out=run")
        with subprocess.Popen([str(c) for c in command], cwd=self.folder, env=clean_environment(),
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                metrics = self.folder / "run/metrics.jsonl"
                end = time.monotonic() + 60
                while not (metrics.exists() and metrics.stat().st_size > 20000):
                    self.assertLess(time.monotonic(), end, "the run does not start")
                    time.sleep(0.02)
                for _ in range(5):  # at any place of a line
                    result = self.report("run", "--force")
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertIn("still running or cut off", self.page().text)
                self.assertIsNone(process.poll(), "the run ended")
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait()
        self.assertEqual(self.report("run", "--force").returncode, 0)

    def test_a_run_that_went_on(self):
        self.trained("run", "--checkpoint-every=20")
        again = self.train("--config=run/config.toml", "--out=run", "--resume=auto", "--steps=90",
                           "--resume-override")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(self.report("run").returncode, 0)
        page = self.page()
        self.assertEqual(page.charts["loss"]["marks"], [60])
        self.assertEqual(page.charts["loss"]["marks_name"], "resumed or rolled back")
        self.assertIn("ended after 90 steps", page.text)
        self.assertIn("steps", page.text)

    def test_an_output_that_is_there(self):
        run = self.trained("run")
        precious = self.write("precious.html", "<p>precious</p>")
        for force in ((), ("--force",)):
            self.expect_error(self.report("run", "--out=precious.html", *force), 2,
                              "precious.html", "not a page")
            self.expect_error(self.report("run", "--csv=precious.html", *force), 2, "not a table")
            self.expect_error(self.report("run", "--out=run/metrics.jsonl", *force), 2,
                              "metrics.jsonl")
        self.assertEqual(precious.read_text(), "<p>precious</p>")
        self.assertFalse((run / "report.html").exists())
        self.assertEqual(self.report("run").returncode, 0)
        first = (run / "report.html").read_bytes()
        self.expect_error(self.report("run"), 2, "already exists", "--force")
        self.assertEqual((run / "report.html").read_bytes(), first)
        self.assertEqual(self.report("run", "--force").returncode, 0)
        self.expect_error(self.report("run", "--out=run"), 2, "is a folder")
        self.expect_error(self.report("run", "--out=none/x.html"), 3, "none/x.html")
        self.assertEqual(list(self.folder.rglob("*.tmp")), [])

    def test_refusals(self):
        self.expect_error(self.report(), 2, "expected the folder of a run")
        self.expect_error(self.report("none"), 1, "none", "--out")
        self.write("empty/readme", "")
        self.expect_error(self.report("empty"), 1, "empty holds no run")
        run = self.trained("run")
        self.expect_error(self.report("run", "run/"), 2, "the same run")
        self.expect_error(self.report("run/metrics.jsonl"), 1, "is not a folder")
        self.expect_error(self.report("run", "--ranks=2"), 2, "--ranks")
        (self.folder / "link").symlink_to(".")
        for spelling in ("x", "./x", "run/../x", self.folder / "x", "link/x"):
            self.expect_error(self.report("run", "--out=x", f"--csv={spelling}"), 2, "both")
        self.expect_error(self.report(*(f"r{i}" for i in range(17))), 2, "17 runs")
        log = (run / "logs/rank_0.log").read_text()
        lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
        (run / "metrics.jsonl").write_text("".join(lines[:10]) + log + "".join(lines[10:]))
        self.expect_error(self.report("run"), 1, "metrics.jsonl line 11", "mixed in")
        (run / "metrics.jsonl").write_text("".join(lines + lines))
        self.expect_error(self.report("run"), 1, "step 1 comes after step 60", "mixed in")
        self.assertFalse((run / "report.html").exists())

    def test_damage_is_said(self):
        run = self.trained("run")
        lines = (run / "metrics.jsonl").read_text()
        (run / "metrics.jsonl").write_text(lines[:-10])
        summary = (run / "summary.json").read_text()
        (run / "summary.json").write_text(summary[:len(summary) // 2])
        result = self.report("run")
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in ("the last line of metrics.jsonl is cut off", "summary.json is skipped"):
            self.assertIn(words, result.stdout)
            self.assertIn(words, self.page().text)

    def test_names_that_look_like_html(self):
        name = "<script>alert(1)<"
        (self.folder / name).mkdir()
        table = self.write(f"{name}/t.csv", csv_text())
        self.trained(f"{name}/run", f"--data=csv:{table}")
        result = self.report(f"{name}/run", "--out=page.html")
        self.assertEqual(result.returncode, 0, result.stderr)
        page = self.page("page.html")
        self.assertEqual(page.count["script"], 3)  # data, library and the page's own
        self.assertIn(str(table), page.text)

    def test_the_table_has_every_number(self):
        run = self.trained("run", "--checkpoint-every=20")
        result = self.report("run", "--csv=all.csv")
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(self.folder / "all.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(len(rows), len(lines))
        for row, line in zip(rows, lines):
            self.assertEqual(row["run"], "run")
            self.assertEqual(int(row["step"]), line["step"])
            for name, value in line.items():
                if isinstance(value, (int, float)) and name in row:
                    self.assertEqual(float(row[name]), value, name)
                elif value is None:
                    self.assertEqual(row[name], "")
        self.assertEqual({row["kind"] for row in rows}, {"step", "evaluation", "checkpoint"})
        self.assertEqual([row["text"] for row in rows if row["kind"] == "checkpoint"],
                         [line["checkpoint"] for line in lines if "checkpoint" in line])
        self.expect_error(self.report("run", "--out=b.html", "--csv=all.csv"), 2, "--force")
        again = self.report("run", "--out=b.html", "--csv=all.csv", "--force")
        self.assertEqual(again.returncode, 0, again.stderr)

    def test_no_field_of_the_table_is_a_formula(self):
        run = self.trained("=cmd|x")
        with open(run / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.write('{"step":61,"epoch":1,"skipped_step":"=1+1"}\n')
        result = self.report("=cmd|x", "--csv=all.csv")
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(self.folder / "all.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual({row["run"] for row in rows}, {"'=cmd|x"})
        self.assertEqual(rows[-1]["text"], "'=1+1")
        for row in rows:
            for field in row.values():
                self.assertFalse(field.startswith(("=", "@", "+")), field)

    def test_a_hundred_thousand_steps(self):
        run = self.trained("run")
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        steps = [line for line in lines if "loss" in line]
        with open(run / "metrics.jsonl", "w", encoding="utf-8") as file:
            for i in range(100_000):
                file.write(json.dumps({**steps[i % len(steps)], "step": i + 1},
                                      separators=(",", ":")) + "\n")
        result = self.report("run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertLess((run / "report.html").stat().st_size, 2_000_000)
        for chart in self.page().charts.values():
            for series in chart["series"]:
                self.assertLessEqual(len(series["y"]), 3000, chart["id"])


class ReportRanks(Reported):
    def test_the_balance_of_two_ranks(self):
        self.trained("run", "--ranks=2", "--steps=5000", "--log-every=50")
        result = self.report("run")
        self.assertEqual(result.returncode, 0, result.stderr)
        page = self.page()
        self.assertIn("Balance of ranks", page.text)
        summary = json.loads((self.folder / "run/summary.json").read_text())
        for row in summary["ledger"]:
            self.assertIn(f"rank {row['rank']} on {row['host']}", page.text)
        self.assertEqual(len(summary["ledger"]), 2)
        if summary["slowest_rank"] >= 0:
            self.assertRegex(page.text, rf"[Tt]he slowest(,| is) rank {summary['slowest_rank']} ")
        shutil.copytree(self.folder / "run", self.folder / "copy")
        (self.folder / "copy/summary.json").unlink()
        self.assertEqual(self.report("copy", "--force").returncode, 0)
        self.assertIn("still running or cut off", self.page("copy/report.html").text)


if __name__ == "__main__":
    main()
