#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the same short runs on several numbers of ranks, with nothing, the optimizer and gradients sharded, and
compares the bits of their weights.

compare_sharding.py PROGRAM [--filter REGEX] [--ranks 1,2,3,4,6]

PROGRAM is `lockstep`. A row is a model (mlp of matrices above the 64 KiB from which a bucket is sharded, gpt in
bf16), an optimizer, and whether gradients are clipped, weights averaged, and a step has more micro-batches than
ranks with a tail. All runs of a row have to end with the same weights, averages included, also those that stop half
way and continue with another number of ranks and another sharding. Exit code 1 where one does not.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

MODELS = {"mlp": ["--model=mlp", "--hidden=160,160", "--data=synthetic:12x12x1:10"],
          "gpt bf16": ["--model=gpt", "--layers=2", "--heads=2", "--width=64", "--context=16", "--precision=bf16"]}
OPTIMIZERS = {"sgd": ["--lr=0.05", "--momentum=0.9"], "adamw": ["--lr=0.002"], "lamb": ["--lr=0.002"],
              "muon": ["--lr=0.002"]}
FEATURES = {"": [], "clipped": ["--clip-norm=0.5"], "averaged": ["--ema=0.9"],
            "clipped, averaged": ["--clip-norm=0.5", "--ema=0.9"]}
BATCHES = {"": ["--global-batch=24", "--micro-batch=2"],  # twelve micro-batches
           "with a tail": ["--global-batch=44", "--micro-batch=4", "--shards=6"]}  # eleven
STEPS = 6


def digest(out):
    weights = json.loads((out / "summary.json").read_text())["weights_sha256"]
    average = out / "ema.safetensors"
    return weights + (hashlib.sha256(average.read_bytes()).hexdigest() if average.exists() else "")


def train(program, out, ranks, flags):
    result = subprocess.run(
        [program, "train", f"--ranks={ranks}", f"--out={out}", "--eval-every=0", "--log-every=0", *flags],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    if result.returncode != 0:
        return f"exit code {result.returncode}: {result.stdout[-400:]}"
    return digest(out)


def row(program, folder, flags, ranks):
    """{run: digest}"""
    found = {}
    for count in ranks:
        for shard in ("none", "optimizer", "gradients"):
            found[f"{count} ranks, {shard}"] = train(program, folder / f"{count}-{shard}", count,
                                                     [*flags, f"--steps={STEPS}", f"--shard={shard}"])
    half, whole = f"--steps={STEPS // 2}", f"--steps={STEPS}"
    most, more, few = ranks[-1], ranks[-2], ranks[1]
    for before, after in (((most, "optimizer"), (few, "none")), ((1, "none"), (more, "optimizer")),
                          ((most, "gradients"), (few, "gradients")), ((few, "optimizer"), (more, "gradients")),
                          ((more, "gradients"), (1, "none"))):
        name = "{} ranks, {}, then {} ranks, {}".format(*before, *after)
        out = folder / name
        train(program, out, before[0], [*flags, half, f"--shard={before[1]}"])
        found[name] = train(program, out, after[0], ["--resume=auto", whole, f"--shard={after[1]}"])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program")
    parser.add_argument("--filter", default="", help="only rows whose name matches")
    parser.add_argument("--ranks", default="1,2,3,4,6")
    arguments = parser.parse_args()
    ranks = [int(count) for count in arguments.ranks.split(",")]
    rows = failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        text = pathlib.Path(scratch) / "text.txt"
        text.write_text("the quick brown fox jumps over the lazy dog. " * 400)
        for model, model_flags in MODELS.items():
            for optimizer, optimizer_flags in OPTIMIZERS.items():
                for feature, feature_flags in FEATURES.items():
                    for batch, batch_flags in BATCHES.items():
                        name = ", ".join(word for word in (model, optimizer, feature, batch) if word)
                        if not re.search(arguments.filter, name):
                            continue
                        data = [f"--data=text:{text}"] if model.startswith("gpt") else []
                        flags = [*model_flags, *data, f"--optimizer={optimizer}", *optimizer_flags, *feature_flags,
                                 *batch_flags, "--lr-schedule=constant", "--warmup-steps=0"]
                        folder = pathlib.Path(scratch) / str(rows)
                        rows += 1
                        found = row(arguments.program, folder, flags, ranks)
                        wanted = found[f"{ranks[0]} ranks, none"]
                        off = {run: got for run, got in found.items() if got != wanted or len(got) < 64}
                        failures += bool(off)
                        print(f"{'DIFFERENT' if off else 'equal':9} {name:40} {len(found)} runs {wanted[:12]}",
                              *(f"\n  {run}: {got[:120]}" for run, got in off.items()), sep="", flush=True)
    print(f"{rows} rows, {failures} of them different")
    return 1 if failures or rows == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
