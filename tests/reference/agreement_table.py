#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predictions of a table's new rows, by Lockstep and by PyTorch. Needs PyTorch, safetensors.

usage: agreement_table.py LOCKSTEP [--rows 400]

Writes a table of houses (the price, a decimal number, in the middle; areas that are missing; a
district in words; separated by semicolons), trains a network of one hidden layer on it, and has
`lockstep predict` say the prices of new rows whose columns stand in another order. PyTorch then does
the same from model.safetensors and preprocessing.json alone. The largest difference, relative to the
spread of the prices, may be 1e-5. Exit code 1 where it is more.
"""
import argparse
import csv
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file

LIMIT = 1e-5
DISTRICTS = {"north": 0.0, "old town": 90000.0, "harbour": 45000.0}


def house(chance, number):
    area = round(chance.uniform(30, 200), 1)
    district = chance.choice(list(DISTRICTS))
    price = 40000 + 2500 * area + DISTRICTS[district] + chance.gauss(0, 9000)
    return {"id": f"h{number}", "area": "" if chance.random() < 0.1 else area,
            "price": round(price, 2), "district": district, "year": chance.randint(1900, 2020)}


def write(path, rows, columns):
    with open(path, "w", newline="") as file:
        table = csv.DictWriter(file, columns, delimiter=";", extrasaction="ignore")
        table.writeheader()
        table.writerows(rows)


def run(*command):
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                                 "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}, check=True)
    return result.stdout


def features_of(row, record):
    """The row as the record says."""
    features = []
    for column in record["columns"]:
        value = str(row[column["name"]])
        if column["kind"] == "numeric":
            number = column["missing"] if value == "" else float(value)
            features.append((number - column["mean"]) / column["deviation"])
        else:
            features += [float(value == category) for category in column["categories"]]
    return features


def prices_of(folder, rows):
    record = json.loads((folder / "preprocessing.json").read_text())["table"]
    weights = {name: tensor.double() for name, tensor in
               load_file(folder / "model.safetensors").items()}
    layers = sorted({name.rsplit(".", 1)[0] for name in weights})
    x = torch.tensor([features_of(row, record) for row in rows], dtype=torch.float32).double()
    for i, layer in enumerate(layers):
        x = torch.nn.functional.linear(x, weights[f"{layer}.weight"], weights[f"{layer}.bias"])
        if i + 1 < len(layers):
            x = torch.relu(x)
    target = record["targets"][0]
    return (x[:, 0] * target["deviation"] + target["mean"]).tolist(), target["deviation"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=400)
    arguments = parser.parse_args()
    chance = random.Random(5)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write(folder / "houses.csv", [house(chance, i) for i in range(arguments.rows)],
              ["id", "area", "price", "district", "year"])
        new = [house(chance, 9000 + i) for i in range(60)]
        write(folder / "new.csv", new, ["year", "district", "id", "area"])
        run(arguments.program, "train", "--data", f"csv:{folder}/houses.csv", "--label-column",
            "price", "--id-column", "id", "--missing", "mean", "--model", "mlp", "--hidden", "16",
            "--global-batch", 32, "--steps", 600, "--lr", 0.05, "--out", folder / "run")
        lines = run(arguments.program, "predict", "--from", folder / "run", folder / "new.csv",
                    "--format", "json").splitlines()
        ours = [json.loads(line) for line in lines]
        theirs, spread = prices_of(folder / "run", new)
        values = [entry["values"]["price"] for entry in ours]
        assert [entry["id"] for entry in ours] == [row["id"] for row in new]
        worst = max(abs(a - b) for a, b in zip(values, theirs, strict=True)) / spread
        error = sum(abs(a - row["price"]) for a, row in zip(values, new)) / len(new)
        print(f"{len(new)} new rows: largest difference {worst:.1e} of the prices' deviation "
              f"({spread:.0f}), mean absolute error {error:.0f}")
        sys.exit(0 if worst <= LIMIT else 1)


if __name__ == "__main__":
    main()
