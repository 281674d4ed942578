#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""That operator_rates measures every operator: its small run, on an emulated device.

  rates_test.py PROGRAM OP_LIST

OP_LIST is core/graph/op_list.inc. What becomes of the numbers is torch_rates.py's, whose answer
without a device is asked for as well.
"""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# What one process does not measure: communication, and views, which run nothing.
NOT_MEASURED = {"all_gather"}
FP32_ALONE = {"matmul", "mean_squared_error", "l1_loss", "huber_loss", "binary_cross_entropy",
              "distillation_loss"}
FLAT = {"copy", "flat add", "sgd_update", "sgd_update momentum", "adamw_update",
        "adamw_update rounded", "sum_tree 2",
        "sum_tree 8", "sum_tree 32", "squared_norms, sent to the host", "conclude_step",
        "add_in_order", "hash, sent to the host", "update_running_statistics", "store_gradient",
        "store_gradient accumulated"}
PRODUCTS = ("bf16", "f32", "tf32")
LINEAR_LAYERS = {"qkv", "proj", "fc1", "fc2", "head", "fc"}
# Of resnet50: the stem and, in four stages, the 1x1 and 3x3 convolutions of different shapes.
CONVOLUTIONS = 23


def operators(op_list):
    text = pathlib.Path(op_list).read_text(encoding="utf-8")
    return set(re.findall(r"^LOCKSTEP_OP\(\w+, (\w+)\)", text, re.MULTILINE)) - NOT_MEASURED


def check(condition, message):
    if not condition:
        sys.exit(f"rates_test: {message}")


def check_rates(rates, wanted, printed):
    types = collections.defaultdict(set)
    for rate in rates:
        name = rate["operator"]
        check("error" not in rate, f"{name}: {rate.get('error')}")
        check(rate["us"] > 0 and rate["gb_s"] > 0 and rate["percent_of_copy"] > 0, f"{name}: {rate}")
        check(rate["memory_bound"] or rate["percent_of_products"] > 0, f"{name}: {rate}")
        check(f"| {name} | {rate['type']} | {rate['shape']} |" in printed,
              f"{name} is not in the table")
        # Small layers in fp32, as all are here, are no library's.
        if name.startswith("conv2d") or (name.startswith("linear") and rate["type"] == "bf16"):
            check(rate.get("chosen"), f"{name}: no algorithm")
            for words in rate["chosen"]:
                check(f"- {name} {rate['type']}: {words}\n" in printed, f"{name}: {words} is not told")
        types[name.split(" ")[0]].add(rate["type"])
    for operator in sorted(wanted):
        products = operator.startswith(("linear", "conv2d"))
        expected = {"f32"} if operator in FP32_ALONE else {"f32", "bf16"}
        if products:
            expected = set(PRODUCTS)
        check(types[operator] >= expected, f"{operator}: measured in {types[operator] or 'nothing'}")
    names = collections.Counter(rate["operator"] for rate in rates)
    check(FLAT <= names.keys(), f"not measured: {FLAT - names.keys()}")
    for layer in LINEAR_LAYERS:
        for operator in ("linear", "linear_bwd_data", "linear_bwd_weights"):
            check(names[f"{operator} {layer}"] == len(PRODUCTS), f"{operator} {layer}: not one line each")
    passes = collections.Counter((rate["torch"]["type"], rate["torch"]["pass"]) for rate in rates
                                 if rate.get("torch", {}).get("kind") == "conv2d")
    for kind in PRODUCTS:
        for name, count in (("forward", CONVOLUTIONS), ("data", CONVOLUTIONS - 1),
                            ("weights", CONVOLUTIONS)):
            check(passes[kind, name] == count, f"convolutions, {kind}, {name}: {passes[kind, name]}")


def main():
    program, op_list = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "rates.json")
        run = subprocess.run([program, "--small", "--json", file], capture_output=True, text=True,
                             timeout=280, check=False)
        check(run.returncode == 0, f"exit code {run.returncode}\n{run.stdout[-2000:]}{run.stderr}")
        with open(file, encoding="utf-8") as text:
            check_rates(json.load(text)["rates"], operators(op_list), run.stdout)
        check("\nFallbacks: " in run.stdout, "no count of fallbacks")
        check("Memory-bound, with a tensor of 64 MiB at least: 0 of 0 below" in run.stdout,
              "no judgement behind the table")
        bad = subprocess.run([program, "--smal"], capture_output=True, timeout=60, check=False)
        check(bad.returncode == 2, f"an unknown flag gives exit code {bad.returncode}")


main()
