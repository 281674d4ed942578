#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables with texts, gaps and numbers to predict: trained by the built program, and evaluated on
other tables. The expected losses are computed here, from the run's record and weights alone.

tables.py PROGRAM Tables
"""
import json
import math
import random
import re
import struct

from program_test import ProgramTest, main

LINEAR = ("--model=mlp", "--hidden=none", "--lr=0.3", "--steps=300", "--eval-every=0")


def read_safetensors(path):
    """{name: (shape, floats)}"""
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + size])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        tensors[name] = entry["shape"], struct.unpack(f"<{(end - begin) // 4}f", content[begin:end])
    return tensors


class LinearModel:
    """What preprocessing.json and model.safetensors of a run say."""

    def __init__(self, run):
        self.record = json.loads((run / "preprocessing.json").read_text())
        self.columns = self.record["table"]["columns"]
        self.targets = self.record["table"]["targets"]
        tensors = read_safetensors(run / "model.safetensors")
        ((self.outputs, self.inputs), self.weight), = (t for t in tensors.values() if len(t[0]) == 2)
        (_, self.bias), = (t for t in tensors.values() if len(t[0]) == 1)

    def features(self, row):
        values = []
        for column in self.columns:
            text = row[column["name"]]
            missing = text in ("", "NA", "?")
            if column["kind"] == "numeric":
                value = column["missing"] if missing else float(text)
                values.append((value - column["mean"]) / column["deviation"])
            else:
                categories = column["categories"] + ["missing"] * ("missing" in column)
                hot = len(column["categories"]) if missing else categories.index(text)
                values += [float(i == hot) for i in range(len(categories))]
        return values

    def __call__(self, row):
        values = self.features(row)
        assert len(values) == self.inputs
        return [self.bias[o] + sum(w * v for w, v in zip(
            self.weight[o * self.inputs:(o + 1) * self.inputs], values)) for o in range(self.outputs)]


class EmbeddedModel:
    """The same of a linear model of numbers and embedded columns, its tables by PyTorch's names: the
    number that it predicts, and the sum of what it is made of, all above 0."""

    def __init__(self, run):
        self.record = json.loads((run / "preprocessing.json").read_text())
        self.columns = self.record["table"]["columns"]
        self.tensors = read_safetensors(run / "model.safetensors")

    def __call__(self, row):
        values, tables = [], 0
        for column in self.columns:
            text = row[column["name"]]
            if column["kind"] == "numeric":
                values.append((float(text) - column["mean"]) / column["deviation"])
                continue
            assert column["kind"] == "embedded"
            (categories, width), table = self.tensors[f"embeddings.{tables}.weight"]
            assert categories == len(column["categories"])
            index = column["categories"].index(text)
            values += table[index * width:(index + 1) * width]
            tables += 1
        (outputs, inputs), weight = self.tensors["0.weight"]
        assert (outputs, inputs) == (1, len(values))
        target, = self.record["table"]["targets"]
        terms = [w * v for w, v in zip(weight, values)] + [self.tensors["0.bias"][1][0]]
        return (sum(terms) * target["deviation"] + target["mean"],
                sum(map(abs, terms)) * target["deviation"] + abs(target["mean"]))


def towns(count, seed, categories=100):
    """A price that depends on the town alone but for a tenth of its deviation, and an area in
    between that says nothing."""
    levels, chance = random.Random(5), random.Random(seed)
    level = [levels.gauss(0, 100) for _ in range(categories)]
    rows = []
    for i in range(count):
        town = i % categories
        rows.append({"area": f"{chance.gauss(70, 20):.2f}", "town": f"town {town}",
                     "more": f"{chance.random():.3f}",
                     "price": f"{500 + level[town] + chance.gauss(0, 10):.2f}"})
    return rows


TOWNS = ["area", "town", "more", "price"]


def houses(count, seed, shift=0.0):
    chance = random.Random(seed)
    rows = []
    for i in range(count):
        area, town = 60 + shift + 80 * chance.random(), chance.choice(("Ulm, Alt", "Bonn", "Kiel"))
        rows.append({"id": f"h{i}", "area": f"{area:.2f}" if i % 9 else "", "town": town,
                     "price": f"{1500 * area + 20000 * len(town) + chance.gauss(0, 2000):.2f}",
                     "heating": chance.choice(("gas", "oil")) if i % 7 else "NA"})
    return rows


def as_csv(rows, columns, separator=","):
    def field(text):
        return '"' + text.replace('"', '""') + '"' if separator in text else text

    lines = [columns] + [[row[column] for column in columns] for row in rows]
    return "\r\n".join(separator.join(map(field, line)) for line in lines) + "\r\n"


class Tables(ProgramTest):
    def evaluate(self, *flags):
        result = self.run_command([self.program, "evaluate", "--from=run", *flags])
        self.assertEqual(result.returncode, 0, result.stderr)
        loss = float(re.match(r"loss (\S+)", result.stdout).group(1))
        accuracy = re.search(r"accuracy ([\d.]+)%", result.stdout)
        return loss, accuracy and float(accuracy.group(1)), result.stdout

    def test_prices_of_houses(self):
        train = self.write("houses.csv", as_csv(houses(200, 1), ["id", "area", "price", "town", "heating"]))
        result = self.train(*LINEAR, "--label-column=price", "--id-column=id", "--missing=median",
                            "--out=run", data=f"csv:{train}")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"data .*160 samples of 7 features from 3 columns and 1 "
                                        r"number to predict; regression: 'price' .* not whole")
        config = (self.folder / "run/config.toml").read_text()
        for line in ("task = 'auto'", "label-column = ['price']", "missing = 'median'",
                     "id-column = ['id']"):
            self.assertIn(line + "\n", config)

        # Another table: shifted, its columns in another order, one more, other separators.
        rows = houses(50, 2, shift=40)
        self.write("other.csv", as_csv([row | {"more": "?"} for row in rows],
                                       ["heating", "price", "more", "town", "area"], ";"))
        model = LinearModel(self.folder / "run")
        self.assertEqual(model.record["task"], "regression")
        price, = model.targets
        errors = []
        for row in rows:
            output, = model(row)
            errors.append(output - (float(row["price"]) - price["mean"]) / price["deviation"])
            # What is learnt is right in the table's units.
            area = float(row["area"] or model.columns[0]["missing"])
            if row["area"]:
                self.assertLess(abs(output * price["deviation"] + price["mean"] -
                                    1500 * area - 20000 * len(row["town"])), 15000)
        expected = sum(error * error for error in errors) / len(errors)
        loss, _, said = self.evaluate("--data=csv:other.csv")
        self.assertIn("50 samples", said)
        self.assertAlmostEqual(loss, expected, delta=1e-5 * max(1, expected))

        # What the record has no place for is refused by name.
        for columns, change, texts in (
                (["area", "town", "heating", "price"], {"town": "Rom"},
                 ("other.csv:2:2", "Bonn, Kiel, Ulm, Alt", "'Rom'")),
                (["areas", "town", "heating", "price"], {"areas": "1"},
                 ("'area'", "did you mean 'areas'?")),
                (["area", "town", "heating", "price"], {"area": "big"}, ("other.csv:2:1", "'big'"))):
            self.write("other.csv", as_csv([rows[1] | change], columns))
            refused = self.run_command([self.program, "evaluate", "--from=run", "--data=csv:other.csv"])
            self.expect_error(refused, 1, *texts)
        refused = self.run_command([self.program, "evaluate", "--from=run", "--drop=area"])
        self.expect_error(refused, 2, "--drop")

    def test_a_shifted_table_is_standardised_as_in_training(self):
        """By its own mean a table that lies elsewhere would look like the training's."""
        def points(count, seed, shift):
            chance = random.Random(seed)
            rows = []
            for _ in range(count):
                x = chance.gauss(shift, 1)
                rows.append({"x": f"{x:.4f}", "y": f"{chance.gauss(0, 1):.4f}",
                             "side": "left" if x < 0 else "right"})
            return rows

        train = self.write("points.csv", as_csv(points(300, 1, 0), ["x", "y", "side"]))
        result = self.train(*LINEAR, "--out=run", data=f"csv:{train}")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = points(200, 2, 2.0)
        self.write("shifted.csv", as_csv(rows, ["x", "y", "side"]))
        model = LinearModel(self.folder / "run")
        right, loss = 0, 0.0
        for row in rows:
            logits = model(row)
            label = model.record["class_names"].index(row["side"])
            right += max(range(2), key=logits.__getitem__) == label
            top = max(logits)
            loss += top + math.log(sum(math.exp(v - top) for v in logits)) - logits[label]
        found, accuracy, _ = self.evaluate("--data=csv:shifted.csv")
        self.assertAlmostEqual(accuracy, 100 * right / len(rows), delta=0.01)
        self.assertAlmostEqual(found, loss / len(rows), delta=1e-5)
        self.assertGreater(accuracy, 95)

    def test_a_column_of_many_categories_is_embedded(self):
        train = self.write("towns.csv", as_csv(towns(1500, 1), TOWNS))
        flags = ("--model=mlp", "--hidden=none", "--optimizer=adamw", "--lr=0.01", "--steps=400", "--val-fraction=0.2",
                 "--global-batch=60", "--micro-batch=30")
        result = self.train(*flags, "--out=run", data=f"csv:{train}")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("embedded: town (100 categories in 21 values)", result.stdout)
        model = EmbeddedModel(self.folder / "run")
        self.assertEqual(sorted(model.tensors), ["0.bias", "0.weight", "embeddings.0.weight"])
        self.assertEqual(model.tensors["embeddings.0.weight"][0], [100, 21])
        self.assertEqual(model.record["embedded"], [{"feature": 1, "categories": 100}])

        # Numbers are standardised: without the town the mean is the best guess, of loss 1.
        result = self.train(*flags, "--drop=town", "--out=without", data=f"csv:{train}")
        self.assertEqual(result.returncode, 0, result.stderr)
        losses = [json.loads((self.folder / run / "summary.json").read_text())["val_loss"]
                  for run in ("run", "without")]
        self.assertLess(losses[0], 0.2)
        self.assertGreater(losses[1], 0.7)

        # New rows, their columns in another order.
        rows = towns(100, 2)
        self.write("new.csv", as_csv(rows, ["town", "more", "area"], ";"))
        said = self.run_command([self.program, "predict", "--from=run", "--format=json", "new.csv"])
        self.assertEqual(said.returncode, 0, said.stderr)
        for line, row in zip(said.stdout.splitlines(), rows, strict=True):
            value = json.loads(line)["values"]["price"]
            expected, terms = model(row)
            # In fp32: each of 23 values, products and sums is rounded, half a unit of 24 bits.
            self.assertAlmostEqual(value, expected, delta=3 * 24 * 2**-24 * terms)
        self.write("other.csv", as_csv([rows[0], rows[1] | {"town": "Rom"}], TOWNS))
        refused = self.run_command([self.program, "evaluate", "--from=run", "--data=csv:other.csv"])
        self.expect_error(refused, 1, "other.csv:3:2", "100 categories of training", "'Rom'")
        refused = self.run_command([self.program, "predict", "--from=run", "other.csv"])
        self.assertEqual(refused.returncode, 1)
        self.assertIn("other.csv: line 3: ", refused.stderr)

        export = self.run_command([self.program, "export", "--from=run", "--to=towns.safetensors"])
        self.assertEqual(export.returncode, 0, export.stderr)
        self.assertEqual(read_safetensors(self.folder / "towns.safetensors"), model.tensors)
        self.expect_error(self.train("--model=convnet", data=f"csv:{train}"), 2, "convnet", "mlp does")

    def test_in_bf16_each_of_a_thousand_categories_has_its_own_vector(self):
        """bf16 rounds whole numbers above 256: an index that had become one would name a neighbour."""
        train = self.write("towns.csv", as_csv(towns(2000, 1, 1000), TOWNS))
        result = self.train("--hidden=none", "--steps=5", "--precision=bf16", "--out=run",
                            data=f"csv:{train}")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("town (1000 categories in 77 values)", result.stdout)
        model = EmbeddedModel(self.folder / "run")
        rows = towns(1000, 2, 1000)
        self.write("new.csv", as_csv(rows, TOWNS))
        said = self.run_command([self.program, "predict", "--from=run", "--format=json", "new.csv"])
        self.assertEqual(said.returncode, 0, said.stderr)
        for line, row in zip(said.stdout.splitlines(), rows, strict=True):
            expected, terms = model(row)
            # Values, weights and the sum are rounded to bf16, half a unit of 8 bits; and products
            # and sums in fp32.
            self.assertAlmostEqual(json.loads(line)["values"]["price"], expected,
                                   delta=(3.1 * 2**-9 + 3 * 80 * 2**-24) * terms, msg=row["town"])

    def test_a_resumed_run_with_an_embedded_column_has_the_same_bits(self):
        train = self.write("towns.csv", as_csv(towns(300, 1), TOWNS))
        flags = ("--model=mlp", "--hidden=8", "--dropout=0.1", "--momentum=0.9", "--val-fraction=0.2")
        for out, *more in (("whole", *flags, "--steps=40"), ("part", *flags, "--steps=17"),
                           ("part", "--resume=part", "--steps=40")):
            command = (self.train_arguments(*more, f"--out={out}", data=f"csv:{train}")
                       if "--resume=part" not in more else
                       [self.program, "train", *more, "--ranks=1"])
            result = self.run_command(command)
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("embedded: town (100 categories in 21 values)", result.stdout)
        whole, part = (json.loads((self.folder / out / "summary.json").read_text())
                       for out in ("whole", "part"))
        self.assertEqual(part["resumed_at"], 17)
        for key in ("weights_sha256", "val_loss"):
            self.assertEqual(part[key], whole[key])

    def test_whole_numbers_that_may_be_classes_or_amounts(self):
        text = "a,b,price\n" + "".join(f"{i},{i % 7},{1000 + 37 * i}\n" for i in range(100))
        table = self.write("prices.csv", text)
        self.expect_error(self.train(data=f"csv:{table}"), 2, "100 different whole numbers",
                          "--task regression")
        result = self.train("--task=regression", "--out=run", data=f"csv:{table}")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("1 number to predict", result.stdout)

    def summary(self, run):
        return json.loads((self.folder / run / "summary.json").read_text())

    def test_a_dropped_column_with_the_name_of_another(self):
        text = "a,a,label\n" + "".join(f"{i % 9},{i % 7},{'xy'[i % 7 > 3]}\n" for i in range(60))
        table = self.write("twins.csv", text)
        result = self.train("--drop=1", "--out=run", data=f"csv:{table}")
        self.assertEqual(result.returncode, 0, result.stderr)
        alone = self.write("alone.csv", re.sub(r"(?m)^[^,]*,", "", text))
        self.assertEqual(self.train("--out=alone", data=f"csv:{alone}").returncode, 0)
        self.assertEqual(self.summary("run")["weights_sha256"], self.summary("alone")["weights_sha256"])
        self.assertEqual(self.evaluate("--data=csv:twins.csv")[:2],
                         self.evaluate("--data=csv:alone.csv")[:2])
        said = [self.run_command([self.program, "predict", "--from=run", name]) for name in
                ("twins.csv", "alone.csv")]
        self.assertEqual([one.returncode for one in said], [0, 0])
        self.assertEqual(said[0].stdout, said[1].stdout.replace("alone.csv", "twins.csv"))

    def test_a_teacher_of_other_columns_is_refused(self):
        """What it was standardised by is another thing in the student's table."""
        rows = [(i % 7, i * i % 11, "xy"[i % 2]) for i in range(60)]
        table = lambda name, header, order, scale=1: self.write(name, header + "\n" + "".join(
            ",".join(str(row[i] * scale if i == 0 else row[i]) for i in order) + "\n" for row in rows))
        flags = ("--model=mlp", "--hidden=4", "--steps=2", "--eval-every=0", "--ranks=1")
        table("own.csv", "a,b,label", (0, 1, 2))
        table("moved.csv", "b,a,label", (1, 0, 2))
        table("scaled.csv", "a,b,label", (0, 1, 2), scale=2)
        taught = self.train(*flags, "--out=teacher", data="csv:own.csv")
        self.assertEqual(taught.returncode, 0, taught.stderr)
        student = self.train(*flags, "--teacher=teacher", "--out=student", data="csv:own.csv")
        self.assertEqual(student.returncode, 0, student.stderr)
        record = json.loads((self.folder / "teacher/preprocessing.json").read_text())
        mean = record["table"]["columns"][0]["mean"]
        for name, *texts in (("moved", "its column 1 is 'a', here it is 'b'"),
                             ("scaled", f"column 'a' has mean {mean:.6g}", "and deviation", "here")):
            with self.subTest(name):
                refused = self.train(*flags, "--teacher=teacher", f"--out={name}", data=f"csv:{name}.csv")
                self.expect_error(refused, 2, "--teacher teacher: it was trained on other samples", *texts,
                                  "train both on the same file")

    def test_a_column_of_numbers_with_a_text(self):
        text = "a,b,label\n" + "".join(f"{i % 9},{i % 7},{'xy'[i % 7 > 3]}\n" for i in range(60))
        table = self.write("stray.csv", text + "3,n/a,x\n")
        self.expect_error(self.train("--out=run", data=f"csv:{table}"), 1, "stray.csv:62:2", "'n/a'",
                          "--categorical 'b'", "--drop 'b'", "--missing")
        result = self.train("--categorical=b", "--out=run", data=f"csv:{table}")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("categorical = ['b']\n", (self.folder / "run/config.toml").read_text())
        column = json.loads((self.folder / "run/preprocessing.json").read_text())["table"]["columns"][1]
        self.assertEqual(column["categories"], ["0", "1", "2", "3", "4", "5", "6", "n/a"])
        refused = self.run_command([self.program, "evaluate", "--from=run", "--categorical=a"])
        self.expect_error(refused, 2, "--categorical")
        self.expect_error(self.train("--categorical=b", data="glyphs"), 2, "--categorical")

    def test_bad_rows_are_skipped_as_if_they_were_not_there(self):
        good = [f"{i % 9},{i % 7},{'xy'[i % 7 > 3]}\n" for i in range(60)]
        bad = {5: "1,2\n", 20: "oops,1,x\n", 33: "\"1,2,x\n", 40: "1,2,\n", 59: "1e400,1,x\n"}
        clean = self.write("clean.csv", "a,b,label\n" + "".join(good))
        table = self.write("bad.csv", "a,b,label\n" +
                           "".join(bad.get(i, "") + row for i, row in enumerate(good)))
        self.expect_error(self.train("--out=run", data=f"csv:{table}"), 1, "bad.csv:7: ",
                          "--skip-bad-samples")
        self.assertEqual(self.train("--out=clean", data=f"csv:{clean}").returncode, 0)
        result = self.train("--skip-bad-samples", "--out=run", data=f"csv:{table}")
        self.assertEqual(result.returncode, 0, result.stderr)
        for line in (7, 23, 37, 45, 65):
            self.assertRegex(result.stdout, rf"(?m)^skipped .*bad.csv:{line}:")
        run, expected = self.summary("run"), self.summary("clean")
        for key in ("weights_sha256", "val_loss", "val_accuracy"):
            self.assertEqual(run[key], expected[key], key)
        self.assertEqual((run["skipped_samples"], expected["skipped_samples"]), (5, 0))

        def evaluate(*flags, of="clean"):
            return self.run_command([self.program, "evaluate", f"--from={of}", "--json", *flags])
        timeless = []
        # All rows, also of the table that the run knows.
        for result in (evaluate("--data=csv:clean.csv", "--val-fraction=1"),
                       evaluate("--data=csv:bad.csv", "--val-fraction=1", "--skip-bad-samples"),
                       evaluate("--data=csv:bad.csv", "--val-fraction=1", of="run")):
            self.assertEqual(result.returncode, 0, result.stderr)
            timeless.append({k: v for k, v in json.loads(result.stdout).items()
                             if k not in ("seconds", "samples_per_s")})
        self.assertRegex(result.stderr, r"bad.csv:7: (.|\n)*bad.csv:65:1: ")
        self.assertEqual(timeless[0]["skipped_samples"], 0)
        for other in timeless[1:]:
            self.assertEqual(other, timeless[0] | {"skipped_samples": 5})
        self.expect_error(evaluate("--data=csv:bad.csv"), 1, "bad.csv:7: ", "--skip-bad-samples")
        # The run's own validation part.
        self.assertEqual(json.loads(evaluate(of="run").stdout)["loss"], expected["val_loss"])


if __name__ == "__main__":
    main()
