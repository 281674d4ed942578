#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What lockstep predict says of files: images, tables and texts.

predictions.py PROGRAM ImagePredictions|TextPredictions|TablePredictions
"""
import csv
import io
import json
import math
import os
import re
import signal
import struct
import subprocess

from images import ImageTest, png
from program_test import ProgramTest, idx, main

TEXT = "the cat sat on the mat and the dog ran to the log. " * 40


class PredictionTest(ProgramTest):
    def predict(self, *arguments, run="run", **options):
        return self.run_command([self.program, "predict", f"--from={run}", *arguments], **options)

    def piped(self, text, *arguments, run="run", command="predict"):
        """The result of predict with `text` on standard input."""
        return subprocess.run([self.program, command, f"--from={run}", *arguments],
                              cwd=self.folder, input=text, text=True, capture_output=True,
                              check=False, timeout=60)

    def expect_full_disk(self, *arguments):
        """Exit code 3, where nothing of the output could be written."""
        with open("/dev/full", "wb") as full:
            self.expect_error(self.run_command([self.program, *arguments], stdout=full), 3,
                              "standard output")

    def lines(self, *arguments, **options):
        """The JSON lines of a prediction that must succeed."""
        result = self.predict("--format=json", *arguments, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def train_here(self, *flags, **options):
        result = self.train("--out=run", *flags, **options)
        self.assertEqual(result.returncode, 0, result.stderr)

    def evaluated(self, *flags):
        result = self.run_command([self.program, "evaluate", "--from=run", *flags])
        self.assertEqual(result.returncode, 0, result.stderr)
        return re.match(r"loss (\S+)(?:  accuracy (\S+)%)?", result.stdout).groups()

    def table_of(self, *arguments):
        """The rows of a prediction in CSV."""
        result = self.predict("--format=csv", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return list(csv.DictReader(io.StringIO(result.stdout, newline="")))


class ImagePredictions(ImageTest, PredictionTest):
    def train_photos(self):
        result = self.train_images("--steps=30", "--lr=0.05", "--out=run")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_files_are_predicted_as_the_validation_part_is(self):
        self.train_photos()
        lines = self.lines("photos/val")
        files = sorted(str(p.relative_to(self.folder)) for p in self.folder.glob("photos/val/*/*"))
        self.assertEqual([line["file"] for line in lines], files)
        right = sum(line["class"] == line["file"].split("/")[2] for line in lines)
        self.assertAlmostEqual(float(self.evaluated()[1]), 100 * right / len(lines), places=1)
        of_data = self.predict("--count=0").stdout.splitlines()
        for line, sample in zip(lines, of_data, strict=True):
            likeliest = f"{line['class']} {100 * line['probability']:.1f}%"
            self.assertIn(likeliest, sample)
            self.assertAlmostEqual(sum(c["probability"] for c in line["top"]), 1)
        for raw, line in zip(self.lines("photos/val", "--logits"), lines, strict=True):
            weights = [math.exp(v) for v in raw["logits"]]
            self.assertAlmostEqual(max(weights) / sum(weights), line["probability"], places=6)
        for row, line in zip(self.table_of("photos/val", "--top=1"), lines, strict=True):
            self.assertEqual([*row], ["file", "class_1", "probability_1"])
            self.assertEqual((row["file"], row["class_1"]), (line["file"], line["class"]))
            self.assertAlmostEqual(float(row["probability_1"]), line["probability"])

    def test_bad_images_do_not_stop_the_others(self):
        self.train_photos()
        self.write("mine/a.jpg", "no image")
        self.write("mine/.hidden.png", "no image")
        good = self.write("mine/b.png", png(50, 31, lambda x, y: (x, y, 7)))
        result = self.predict("mine", "nowhere.png", "photos/val/dark/*.png", "mine/*.gif")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), 5, result.stdout)
        self.assertTrue(result.stdout.startswith("mine/b.png  "), result.stdout)
        for name in ("mine/a.jpg: ", "nowhere.png: ", "mine/*.gif: ", "3 of 8 inputs"):
            self.assertIn(name, result.stderr)
        self.assertNotIn("hidden", result.stderr)
        # A prediction does not depend on the others of its batch.
        alone = self.predict(good.relative_to(self.folder))
        self.assertEqual(alone.stdout, result.stdout.splitlines(keepends=True)[0])
        self.expect_error(self.predict("mine/a.jpg"), 1, "mine/a.jpg: expected a JPEG or PNG")
        self.expect_error(self.predict("nowhere.png"), 1, "nowhere.png: no such file")
        self.expect_error(self.predict("mine/b.png", "--data=images:photos"), 2, "--data")
        self.expect_error(self.predict("--format=csv"), 2, "--format")

    def test_no_image_comes_from_standard_input(self):
        """Which is said before the first batch of 32, not with the rest of them computed and lost."""
        self.train_photos()
        result = self.predict("photos/train", "photos/val", "-")
        self.expect_error(result, 2, "standard input")
        self.assertEqual(result.stdout, "")

    def test_unreadable_samples_are_skipped_where_the_run_skips_them(self):
        self.train_photos()
        samples = self.predict("--count=0").stdout.splitlines(keepends=True)
        bad = sorted(self.folder.glob("photos/val/*/*"))[2].relative_to(self.folder)
        self.write(bad, "no image")
        self.expect_error(self.predict("--count=0"), 1, str(bad))
        result = self.predict("--count=0", "--skip-bad-samples")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "".join(samples[:2] + samples[3:]))
        self.assertEqual(result.stderr.count(str(bad)), 1, result.stderr)

    def test_names_that_mean_something_to_terminals_and_spreadsheets(self):
        self.train_photos()
        content = png(20, 20, lambda x, y: (x, y, 7))
        names = ["=1+1.png", "a\x1b[2J\n.png", "say \"a, b\".png", "x" * 230 + ".png"]
        for name in names:
            self.write(f"odd/{name}", content)
        self.write("-v.png", content)
        result = self.predict("odd", "--", "-v.png")
        self.assertEqual(result.returncode, 0, result.stderr)
        places = [line.split("  ")[0] for line in result.stdout.splitlines()]
        long = places.pop(3)
        self.assertEqual(places, ["odd/=1+1.png", "odd/a\\x1b[2J\\n.png", 'odd/say "a, b".png',
                                  "-v.png"])
        self.assertRegex(long, "^odd/x+.*238.*x[.]png$")  # its length, in place of its middle
        for name in names:
            (self.folder / "odd" / name).rename(self.folder / name)
        rows = self.table_of("--", "=1+1.png", names[2], "-v.png")
        self.assertEqual([row["file"] for row in rows], ["'=1+1.png", names[2], "'-v.png"])
        self.assertEqual([line["file"] for line in self.lines("--", *names)], names)

    def test_grey_samples_come_from_colour_files(self):
        digits = [bytes(250 if x // 3 == i % 10 else 9 * (y % 7) for y in range(28)
                        for x in range(28)) for i in range(40)]
        images = idx(0x803, [40, 28, 28], b"".join(digits))
        labels = idx(0x801, [40], bytes(i % 10 for i in range(40)))
        data = self.mnist(train_images_idx3_ubyte=images, train_labels_idx1_ubyte=labels,
                          t10k_images_idx3_ubyte=images, t10k_labels_idx1_ubyte=labels)
        self.train_here("--steps=40", "--hidden=16", data=data)
        of_data = self.predict("--count=10", "--top=1").stdout.splitlines()
        for i in range(10):
            # (0, 255, 0) has the luma 150, as Pillow's convert("L") says.
            self.write(f"grey/{i}.png", png(28, 28, lambda x, y, i=i: (digits[i][28 * y + x],) * 3))
            self.write(f"double/{i}.png", png(56, 56, lambda x, y, i=i: (
                digits[i][28 * (y // 2) + x // 2],) * 3))
        lines = self.lines("grey")
        for line, sample in zip(lines, of_data, strict=True):
            self.assertTrue(sample.endswith(f"{line['class']} {100 * line['probability']:.1f}%"))
        for line, twice in zip(lines, self.lines("double"), strict=True):
            self.assertEqual(line["class"], twice["class"])
            self.assertAlmostEqual(line["probability"], twice["probability"], delta=0.05)
        self.write("green.png", png(28, 28, lambda x, y: (0, 255, 0)))
        self.write("luma.png", png(28, 28, lambda x, y: (150, 150, 150)))
        green, luma = self.lines("green.png", "luma.png", "--logits")
        self.assertEqual(green["logits"], luma["logits"])


class TextPredictions(PredictionTest):
    GPT = ("--model=gpt", "--layers=1", "--heads=2", "--width=16", "--context=16",
           "--optimizer=adamw", "--lr=0.01", "--global-batch=8", "--micro-batch=4")

    def test_loss_is_that_of_evaluate(self):
        text = self.write("text.txt", TEXT)
        self.train_here(*self.GPT, "--steps=60", data=f"text:{text}")
        other = self.write("other.txt", "the dog sat on the log and the cat ran to the mat. " * 3)
        short = self.write("short.txt", "t")
        line, single = self.lines("other.txt", "short.txt")
        self.assertEqual(line["tokens"], len(other.read_text()))
        self.assertAlmostEqual(line["loss"], float(self.evaluated(f"--data=text:{other}")[0]),
                               places=5)
        self.assertAlmostEqual(line["perplexity"], math.exp(line["loss"]))
        self.assertEqual(len(line["next"]), 5)
        self.assertEqual((single["tokens"], single["loss"]), (len(short.read_text()), None))
        self.assertEqual(single["next"][0]["token"], "h")
        rows = self.table_of("other.txt", "--top=2")
        self.assertEqual(rows[0]["token_2"], line["next"][1]["token"])
        self.assertAlmostEqual(float(rows[0]["loss"]), line["loss"])
        piped = self.piped(other.read_text(), "--format=json", "-")
        self.assertEqual(json.loads(piped.stdout), {**line, "file": "stdin"})
        self.write("odd.txt", "the Über")
        result = self.predict("odd.txt", "other.txt")
        self.assertEqual(result.returncode, 1)
        self.assertIn("odd.txt: the character 'Ü' at byte 4", result.stderr)
        self.assertIn(f"other.txt  {line['tokens']} tokens, loss {line['loss']:.6f}", result.stdout)
        self.expect_error(self.piped("", "-"), 2, "standard input is empty")
        self.expect_error(self.piped("the cat"), 2, "FILE", " - ")
        self.expect_error(self.predict("other.txt", "--logits"), 2, "--logits")
        self.expect_full_disk("predict", "--from=run", "other.txt")
        self.expect_full_disk("generate", "--from=run", "--tokens=3")

    def test_numbers_and_files_of_tokens_are_the_same(self):
        tokens = [i * i % 11 for i in range(600)]
        data = self.write("train.bin", struct.pack("<600H", *tokens))
        self.train_here(*self.GPT, "--steps=5", "--vocabulary=11", data=f"tokens:{data}")
        self.write("some.bin", struct.pack("<50H", *tokens[:50]))
        self.write("some.txt", " ".join(map(str, tokens[:50])))
        binary, written = self.lines("some.bin", "some.txt")
        self.assertEqual({**binary, "file": ""}, {**written, "file": ""})
        self.assertEqual(binary["tokens"], 50)
        self.write("far.txt", "1 2 11")
        self.expect_error(self.predict("far.txt"), 1, "far.txt: '11' is not a token from 0 to 10")


class TablePredictions(PredictionTest):
    def test_classes(self):
        self.train_here("--steps=40", "--lr=0.3")
        rows = self.table.read_text().splitlines()
        # Columns in another order, one too many, and no label.
        self.write("new.csv", "b,note,a\n" + "".join(
            f"{b},x,{a}\n" for a, b, _ in (row.split(",") for row in rows[1:])))
        lines = self.lines("new.csv")
        self.assertEqual([line["line"] for line in lines], list(range(2, len(rows) + 1)))
        self.assertEqual([line["class"] for line in lines], [row.split(",")[2] for row in rows[1:]])
        self.assertEqual([line["class"] for line in self.lines("table.csv")],
                         [line["class"] for line in lines])
        piped = self.piped(self.table.read_text(), "--format=json", "-")
        self.assertEqual([json.loads(line)["top"] for line in piped.stdout.splitlines()],
                         [line["top"] for line in lines])
        self.assertEqual([row["class_1"] for row in self.table_of("new.csv")],
                         [line["class"] for line in lines])
        self.write("bad.csv", "a,b\n1,1\nx,2\n0,2\n")
        result = self.predict("bad.csv")
        self.assertEqual(result.returncode, 1)
        self.assertIn("bad.csv: line 3: ", result.stderr)
        self.assertEqual([line.split("  ")[0] for line in result.stdout.splitlines()],
                         ["bad.csv:2", "bad.csv:4"])
        self.expect_error(self.piped("", "-"), 2, "standard input is empty")

    def test_standard_input_is_read_for_a_dash_alone(self):
        self.train_here()
        expected = self.predict().stdout
        self.assertTrue(expected)
        # As in `while read NAME; do lockstep predict ...; done`, whose list has an open end.
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb", buffering=0) as names, os.fdopen(writer, "wb") as rest:
            rest.write(b"second name\n")
            rest.flush()
            result = subprocess.run([self.program, "predict", "--from=run"], cwd=self.folder,
                                    stdin=names, text=True, capture_output=True, check=False,
                                    timeout=60)
            self.assertEqual((result.returncode, result.stdout), (0, expected), result.stderr)
            self.assertEqual(names.read(100), b"second name\n")

    def test_standard_input_has_one_name(self):
        self.train_here()
        text = self.table.read_text()
        table = self.piped(text, "-").stdout.splitlines()
        self.assertEqual(table[0].split("  ")[0], "stdin:2")
        rows = csv.DictReader(io.StringIO(self.piped(text, "-", "--format=csv").stdout))
        self.assertEqual({row["file"] for row in rows}, {"stdin"})
        lines = self.piped(text, "-", "--format=json").stdout.splitlines()
        self.assertEqual({json.loads(line)["file"] for line in lines}, {"stdin"})

    def test_a_full_disk_is_an_error(self):
        self.train_here()
        self.expect_full_disk("predict", "--from=run")
        self.expect_full_disk("predict", "--from=run", "table.csv")
        self.expect_full_disk("evaluate", "--from=run", "--json")
        self.expect_full_disk("completion", "bash")
        self.expect_full_disk("help")

    def test_a_reader_that_leaves_ends_the_work(self):
        self.train_here()
        for arguments in (["table.csv", "nowhere.csv"], ["--count=0"]):
            reader, writer = os.pipe()
            os.close(reader)
            with os.fdopen(writer, "wb") as output:
                result = self.run_command([self.program, "predict", "--from=run", *arguments],
                                          stdout=output)
            self.assertEqual((result.returncode, result.stderr), (-signal.SIGPIPE, ""))

    def test_names_of_classes_and_columns(self):
        """On a terminal, where control characters mean something, and in a spreadsheet."""
        kinds = {"k0": "=1+1", "k1": "a\x1b[2J", "k2": "-b"}
        text = self.table.read_text()
        for plain, odd in kinds.items():
            text = text.replace(plain, odd)
        self.table.write_text(text)
        self.train_here("--lr=0.3", "--steps=40")
        rows = self.table_of("table.csv", "--top=1")
        self.assertEqual({row["class_1"] for row in rows}, {"'=1+1", "a\x1b[2J", "'-b"})
        for result in (self.predict("table.csv"), self.predict("--count=0")):
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn("\x1b", result.stdout)
            self.assertIn("a\\x1b[2J", result.stdout)
        self.write("prices.csv", "a,=price\n" + "".join(f"{i},{i + 0.5}\n" for i in range(40)))
        self.train_here("--force", "--hidden=none", data="csv:prices.csv")
        self.assertEqual([*self.table_of("prices.csv")[0]], ["file", "line", "'=price"])

    def test_rows_below_a_quote_that_does_not_close(self):
        self.train_here("--steps=5", "--lr=0.3")
        for quoted in ('"1,1', '"1"1,1', '1,"1'):
            self.write("quote.csv", f"a,b\n0,2\n{quoted}\n2,0\n0,2\n")
            result = self.predict("quote.csv")
            self.assertEqual(result.returncode, 1)
            self.assertIn("quote.csv: line 3: ", result.stderr)
            self.assertIn("1 of 4 inputs", result.stderr)
            self.assertEqual([line.split("  ")[0] for line in result.stdout.splitlines()],
                             ["quote.csv:2", "quote.csv:4", "quote.csv:5"])

    def test_numbers_are_in_the_tables_units(self):
        rows = [(f"h{i}", i % 13, i % 7, 1000 + 250 * (i % 13) - 40 * (i % 7)) for i in range(120)]
        self.write("prices.csv", "id,a,b,price\n" +
                   "".join(f"{name},{a},{b},{price}\n" for name, a, b, price in rows))
        self.train_here("--hidden=none", "--lr=0.3", "--steps=300", "--task=regression",
                        "--id-column=id", data="csv:prices.csv")
        self.write("new.csv", "b,a,id\n" + "".join(f"{b},{a},{n}\n" for n, a, b, _ in rows[:40]))
        lines = self.lines("new.csv")
        self.assertEqual([line["id"] for line in lines], [row[0] for row in rows[:40]])
        for line, row in zip(lines, rows):
            self.assertAlmostEqual(line["values"]["price"], row[3], delta=5)
        table = self.table_of("new.csv")
        self.assertEqual([*table[0]], ["file", "line", "id", "price"])
        self.assertAlmostEqual(float(table[3]["price"]), lines[3]["values"]["price"], places=3)
        self.assertRegex(self.predict("new.csv").stdout, r"(?m)^new.csv:2 \(h0\)  price \d+")

        said = [line["values"]["price"] for line in self.lines("prices.csv")]
        errors = [p - row[3] for p, row in zip(said, rows, strict=True)]
        mean = sum(row[3] for row in rows) / len(rows)
        squares = sum(e * e for e in errors)
        result = self.run_command([self.program, "evaluate", "--from=run", "--json",
                                   "--data=csv:prices.csv", "--val-fraction=1"])
        self.assertEqual(result.returncode, 0, result.stderr)
        target, = json.loads(result.stdout)["targets"]
        self.assertEqual(target["target"], "price")
        self.assertAlmostEqual(target["rmse"], math.sqrt(squares / len(rows)), places=4)
        self.assertAlmostEqual(target["mae"], sum(map(abs, errors)) / len(rows), places=4)
        self.assertAlmostEqual(target["r2"], 1 - squares / sum((row[3] - mean) ** 2
                                                               for row in rows))

    def test_labels_are_those_that_are_likelier_than_not(self):
        self.write("things.csv", "a,b,red,big\n" + "".join(
            f"{a},{b},{int(a > 3)},{int(b > 4)}\n" for a in range(8) for b in range(10)))
        self.train_here("--hidden=8", "--lr=0.1", "--steps=30", "--task=multi-label",
                        "--label-column=red", "--label-column=big", data="csv:things.csv")
        raw = [line["logits"] for line in self.lines("things.csv", "--logits")]
        lines = self.lines("things.csv")
        for logits, line in zip(raw, lines, strict=True):
            expected = [(n, 1 / (1 + math.exp(-z))) for n, z in zip(("red", "big"), logits) if z >= 0]
            self.assertEqual([one["label"] for one in line["labels"]], [n for n, _ in expected])
            for one, (_, probability) in zip(line["labels"], expected):
                self.assertAlmostEqual(one["probability"], probability, places=6)
        self.assertTrue(all(len(line["labels"]) == 1
                            for line in self.lines("things.csv", "--top=1")))
        self.assertEqual([*self.table_of("things.csv")[0]], ["file", "line", "red", "big"])
        result = self.run_command([self.program, "evaluate", "--from=run", "--json",
                                   "--data=csv:things.csv", "--val-fraction=1"])
        red, big = json.loads(result.stdout)["per_label"]
        self.assertEqual((red["label"], red["samples"], big["samples"]), ("red", 40, 40))
        right = sum(z[0] >= 0 and i // 10 > 3 for i, z in enumerate(raw))
        self.assertAlmostEqual(red["recall"], right / 40)


if __name__ == "__main__":
    main()
