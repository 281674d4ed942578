#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the same short runs with two builds of the program, and compares the bits of their weights.

compare_weights.py OLD NEW [--filter REGEX]

For changes that are not meant to change bits: OLD and NEW are `lockstep` programs of two commits on one
machine. Runs cover the model families, both precisions, 1 to 4 ranks, each kind of batch norm, optimizers,
dropout, recomputation, clipping, accumulation with a tail, and a run of OLD that NEW resumes on another
number of ranks. Exit code 1 where a digest differs or a run fails.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

SMALL_GPT = ["--model=gpt", "--layers=2", "--heads=2", "--width=32", "--context=16", "--lr=0.001"]
CONVNET = ["--model=convnet", "--lr=0.05", "--momentum=0.9"]
RESNET = ["--model=resnet20", "--lr=0.05", "--momentum=0.9"]
BATCH = ["--global-batch=24", "--micro-batch=4"]
TAIL = ["--global-batch=22", "--micro-batch=4"]  # six micro-batches, the last of two samples


def cases(folder):
    """name -> (flags, ranks)"""
    text, table = f"--data=text:{folder}/text.txt", f"--data=csv:{folder}/table.csv"
    found = {}

    def add(name, flags, ranks=(1,), steps=6):
        for count in ranks:
            found[f"{name}, {count} ranks"] = ([*flags, f"--steps={steps}"], count)

    every = (1, 2, 3, 4)
    add("mlp table", ["--model=mlp", "--hidden=10,10", table, *BATCH, "--lr=0.1"], every, 12)
    add("mlp table adamw", ["--model=mlp", table, *TAIL, "--optimizer=adamw", "--lr=0.01"], (1, 3), 12)
    add("mlp bf16", ["--model=mlp", *BATCH, "--precision=bf16", "--lr=0.1"], (1, 2))
    add("convnet", [*CONVNET, *BATCH], every)
    add("convnet bf16", [*CONVNET, *BATCH, "--precision=bf16"], every)
    add("convnet tail", [*CONVNET, *TAIL, "--weight-decay=0.0005", "--nesterov"], (1, 2, 4))
    add("convnet clipped", [*CONVNET, *BATCH, "--clip-norm=0.5", "--augment=shift:1"], (1, 2))
    add("convnet fast reduction", [*CONVNET, *BATCH, "--reduction=fast"], (2,))
    add("resnet20 local", [*RESNET, *BATCH, "--batch-norm=local"], (1, 2, 3))
    add("resnet20 sync", [*RESNET, *BATCH, "--batch-norm=sync"], (1, 2))
    add("resnet20 group", [*RESNET, "--global-batch=24", "--micro-batch=8", "--batch-norm=group:4"], (1, 2, 3))
    add("resnet20 group over ranks", [*RESNET, *BATCH, "--batch-norm=group:8"], (2, 4))
    add("resnet20 bf16", [*RESNET, *BATCH, "--precision=bf16"], (1, 2))
    add("resnet20 recomputed", [*RESNET, *BATCH, "--recompute=all"], (1,))
    add("resnet18", ["--model=resnet18", "--stem=cifar", *BATCH, "--lr=0.05"], (1, 2), 2)
    add("vgg16", ["--model=vgg16", "--stem=cifar", "--data=synthetic:32x32x3:10", *BATCH, "--lr=0.001"], (1,), 1)
    add("gpt", [*SMALL_GPT, text, *BATCH, "--dropout=0.1"], every)
    add("gpt bf16", [*SMALL_GPT, text, *BATCH, "--precision=bf16", "--dropout=0.1"], (1, 2, 4))
    add("gpt sgd", [*SMALL_GPT, text, *TAIL, "--optimizer=sgd", "--lr-schedule=constant"], (1, 2))
    add("gpt recomputed", [*SMALL_GPT, text, *BATCH, "--recompute=all", "--clip-norm=1"], (1, 2))
    return found


def train(program, out, flags, ranks):
    result = subprocess.run([program, "train", f"--ranks={ranks}", f"--out={out}", *flags],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, check=False)
    if result.returncode != 0:
        return f"exit code {result.returncode}: {result.stdout[-400:]}"
    return json.loads((pathlib.Path(out) / "summary.json").read_text())["weights_sha256"]


def resumed(old, new, folder, name, flags):
    """Digests of a run of OLD alone, and of one that OLD begins on two ranks and NEW ends on three."""
    whole = train(old, folder / f"{name}-whole", [*flags, "--steps=8"], 2)
    begun = train(old, folder / f"{name}-begun", [*flags, "--steps=4"], 2)
    if len(begun) != 64:
        return whole, begun
    return whole, train(new, folder / f"{name}-begun", ["--resume=auto", "--steps=8"], 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--filter", default="", help="only runs whose name matches")
    arguments = parser.parse_args()
    failures = count = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 200)
        rows = [f"{i % 3 + 0.01 * (i % 7)},{2 - i % 3 + 0.01 * (i % 5)},k{i % 3}" for i in range(120)]
        (folder / "table.csv").write_text("\n".join(["a,b,label", *rows]) + "\n")
        runs = {name: lambda i=i, f=f, r=r: (train(arguments.old, folder / f"{i}-old", f, r),
                                             train(arguments.new, folder / f"{i}-new", f, r))
                for i, (name, (f, r)) in enumerate(cases(folder).items())}
        lasting = ["--lr-schedule=constant", "--checkpoint-every=4"]
        for name, flags in (("convnet", [*CONVNET, *TAIL, *lasting]),
                            ("gpt", [*SMALL_GPT, f"--data=text:{folder}/text.txt", *BATCH, *lasting]),
                            ("resnet20", [*RESNET, *BATCH, *lasting])):
            runs[f"{name}, resumed by the other build"] = lambda n=name, f=flags: resumed(
                arguments.old, arguments.new, folder, f"resumed-{n}", f)
        for name, run in runs.items():
            if not re.search(arguments.filter, name):
                continue
            count += 1
            old, new = run()
            equal = old == new and len(old) == 64
            failures += not equal
            print(f"{'equal' if equal else 'DIFFERENT':9} {name:40} {old[:12]}"
                  + ("" if equal else f"\n  old {old}\n  new {new}"), flush=True)
    print(f"{count} runs, {failures} of them different")
    return 1 if failures or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
