#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saving by all ranks against saving by rank 0 alone: seconds of a save, stall, memory of each rank.

checkpoint_writers.py [--build DIR] [--before DIR] [--ranks N] [--saves N] [--rounds N]
                      [--shape LAYERS,WIDTH,VOCABULARY] [--folder DIR]

First checkpoint_benchmark, which trains nothing, on a gpt of 355 million parameters with AdamW's state:
all ranks and rank 0 alone, in turn. Then, with --before, the build in that folder against this one: a
training of a smaller gpt that fits the machine, steps of which do not matter; its checkpoints' records
in metrics.jsonl. Medians over all saves of all rounds (least to most), and the ratio of the medians.
Beside each, the seconds that writing and syncing as many bytes takes this disk by itself (dd). Where
ranks share one disk that is the bound: hashing and copying are divided by the ranks, writing is not.
Exit code 1 where a run fails.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

PROJECT = pathlib.Path(__file__).resolve().parents[2]
TRAINED = ["--model", "gpt", "--layers", "12", "--heads", "12", "--width", "768", "--context", "16",
           "--optimizer", "adamw", "--micro-batch", "1", "--eval-every", "0", "--log-every", "1",
           "--check-replicas-every", "0", "--steps", "8", "--checkpoint-every", "1",
           "--checkpoint-keep", "1"]
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_mpi_yield_when_idle": "1"}
MB = 1e6


def run(command, cwd):
    result = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, cwd=cwd)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nfailed:\n{result.stdout}{result.stderr[-3000:]}")
    return result.stdout


def disk_seconds(folder, size):
    """Of writing and syncing so many bytes from one process."""
    path = folder / "plain"
    block = bytes(os.urandom(1 << 20)) * 8
    begin = time.monotonic()
    with open(path, "wb", buffering=0) as out:
        left = size
        while left > 0:
            left -= out.write(block[:left])
        os.fsync(out.fileno())
    seconds = time.monotonic() - begin
    path.unlink()
    return seconds


def spread(values, digits):
    return (f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to "
            f"{max(values):.{digits}f})")


def print_rows(sides, names):
    for key, title, digits in (("seconds", "seconds of a save", 2), ("stall_ms", "stall, ms", 1)):
        cells = [spread(sides[name][key], digits) for name in names]
        ratio = statistics.median(sides[names[1]][key]) / statistics.median(sides[names[0]][key])
        print(f"| {title} | {cells[0]} | {cells[1]} | {ratio:.2f} |", flush=True)


def compare_writers(options, folder):
    """checkpoint_benchmark, one writer and all."""
    program = options.build / "tests/benchmarks/checkpoint_benchmark"
    sides, last = {}, {}
    for _ in range(options.rounds):
        for mode in ("one", "all"):
            out = folder / "checkpoints"
            line = run(["mpirun", "--oversubscribe", "-np", str(options.ranks), program, out, mode,
                        str(options.saves), *options.shape.split(",")], folder)
            last[mode] = json.loads(line)
            for key in ("seconds", "stall_ms"):
                sides.setdefault(mode, {}).setdefault(key, []).extend(last[mode][key])
            size = sum(f.stat().st_size for f in out.rglob("*.safetensors"))
            shutil.rmtree(out)
            sides[mode].setdefault("disk", []).append(disk_seconds(folder, size))
    print(f"\n{last['all']['parameters'] / 1e6:.0f} million parameters, {size / 1e9:.2f} GB a "
          f"checkpoint, {options.ranks} ranks; the disk alone: "
          f"{spread(sides['one']['disk'] + sides['all']['disk'], 2)} s\n")
    print("| | rank 0 alone | all ranks | ratio |\n|---|--:|--:|--:|")
    print_rows(sides, ("one", "all"))
    for title, key in (("snapshots, MB by rank", "snapshot_bytes"), ("peak, MB by rank", "peak_bytes")):
        one, every = ([value / MB for value in last[mode][key]] for mode in ("one", "all"))
        print(f"| {title} | {', '.join(f'{v:,.0f}' for v in one)} | "
              f"{', '.join(f'{v:,.0f}' for v in every)} | {max(every) / max(one):.2f} |")


def compare_builds(options, folder):
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog.\n" * 200)
    sides, digests = {}, set()
    for _ in range(options.rounds):
        for name, build in (("before", options.before), ("now", options.build)):
            out = folder / "run"
            run([build / "lockstep", "train", "--data", "text:text.txt", *TRAINED, "--global-batch",
                 str(options.ranks), "--ranks", str(options.ranks), "--out", out], folder)
            summary = json.loads((out / "summary.json").read_text())
            records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()
                       if '"checkpoint"' in line]
            side = sides.setdefault(name, {"seconds": [], "stall_ms": [], "peak": []})
            for record in records:
                side["seconds"].append(record["seconds"])
                side["stall_ms"].append(record["stall_ms"])
            side["peak"].append(summary["peak_memory_bytes"] / MB)
            digests.add(summary["weights_sha256"])
            shutil.rmtree(out)
    if len(digests) != 1:
        sys.exit("the weights differ")
    print(f"\na training of the gpt with 12 layers and width 768 on {options.ranks} ranks\n")
    print("| | before | now | ratio |\n|---|--:|--:|--:|")
    print_rows(sides, ("before", "now"))
    before, now = (statistics.median(sides[name]["peak"]) for name in ("before", "now"))
    print(f"| peak of rank 0, MB | {before:,.0f} | {now:,.0f} | {now / before:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=PROJECT / "build/release")
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--saves", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shape", default="24,1024,50257")
    parser.add_argument("--folder", type=pathlib.Path, help="on the disk that is to be measured")
    options = parser.parse_args()
    options.build = options.build.resolve()
    with tempfile.TemporaryDirectory(prefix="lockstep-checkpoints-", dir=options.folder) as name:
        folder = pathlib.Path(name)
        compare_writers(options, folder)
        if options.before:
            options.before = options.before.resolve()
            compare_builds(options, folder)


if __name__ == "__main__":
    main()
