#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the host asks of a GPU in a steady step: calls of the CUDA runtime and driver, counted.

  one_launch.py PROGRAM LIBRARY [--cupti FILE] [--text FILE]

PROGRAM is lockstep, LIBRARY is count_calls.c, which counts between two launches of a graph. A step
of one micro-batch has to be one launch of a graph, without kernels in addition to it and without waiting
for the device as a whole or for a stream; copies, events and what is asked without waiting may be
there and are listed. Of a step of four micro-batches the launches are at most four. Exit code 1
where that is not so, or where nothing could be counted.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

FIRST, LAST, STEPS = 200, 400, 600
# Of the runtime and the driver, as names begin.
KERNELS = ("cudaLaunch", "cuLaunch")
WAITS = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cuCtxSynchronize",
         "cuStreamSynchronize")
# Copies with which the host waits: those without Async in the name.
COPIES = ("cudaMemcpy", "cuMemcpy")
COMMON = ["train", "--device", "cuda", "--ranks", "1", "--steps", str(STEPS), "--log-every", "0",
          "--eval-every", "0", "--checkpoint-every", "0", "--noise-scale-every", "0",
          "--check-replicas-every", "0"]
CONVNET = ["--data", "glyphs", "--model", "convnet", "--global-batch", "64"]
GPT = ["--model", "gpt", "--layers", "2", "--heads", "2", "--width", "64", "--context", "64",
       "--global-batch", "16", "--precision", "bf16", "--dropout", "0.1", "--optimizer", "adamw",
       "--clip-norm", "1"]


def cases(text):
    """(name, flags, micro-batches of a step)"""
    return [("convnet", [*CONVNET, "--micro-batch", "64"], 1),
            ("gpt", [*GPT, "--data", f"text:{text}", "--micro-batch", "16"], 1),
            ("convnet, 4 micro-batches", [*CONVNET, "--micro-batch", "16"], 4)]


def count(program, library, cupti, flags, folder):
    """What count_calls.c wrote; ends the script where the run failed."""
    out = folder / "calls.json"
    out.unlink(missing_ok=True)
    environment = {**os.environ, "CUDA_INJECTION64_PATH": str(library.resolve()),
                   "COUNT_CALLS_OUT": str(out), "COUNT_CALLS_FIRST": str(FIRST),
                   "COUNT_CALLS_LAST": str(LAST)}
    if cupti:
        environment["COUNT_CALLS_CUPTI"] = cupti
    run = subprocess.run([str(program), *COMMON, *flags, "--force", "--out", str(folder / "run")],
                         env=environment, capture_output=True, text=True, timeout=300)
    if run.returncode != 0:
        sys.exit(f"exit code {run.returncode}: {' '.join(run.args)}\n{run.stderr[-2000:]}")
    if not out.exists():
        sys.exit("the driver did not load the library that counts (CUDA_INJECTION64_PATH)")
    return json.loads(out.read_text())


def named(counts, beginnings):
    return {name: n for name, n in counts.items() if name.startswith(beginnings)}


def faults(counts, micro_batches):
    """Why this is not what a steady step should be."""
    if counts["trouble"]:
        return [f"nothing could be counted: {counts['trouble']}"]
    if counts["launches"] < LAST:
        return [f"{counts['launches']} launches of graphs in {STEPS} steps, {LAST} are needed to "
                f"count between; {counts['calls_in_all']} calls in all"]
    found = []
    calls = {**counts["runtime"], **counts["driver"]}
    if counts["launches"] > STEPS * micro_batches:
        found.append(f"{counts['launches']} launches of graphs in {STEPS} steps of {micro_batches} "
                     "micro-batches")
    if kernels := named(calls, KERNELS):
        found.append(f"kernels are launched beside the graph: {kernels}")
    if waits := named(calls, WAITS):
        found.append(f"the host waits for all of the device's work: {waits}")
    waiting = {name: n for name, n in named(calls, COPIES).items() if "Async" not in name}
    if waiting:
        found.append(f"the host waits for copies: {waiting}")
    return found


def print_counts(name, counts):
    launches = counts["last"] - counts["first"]
    print(f"\n{name}: {counts['launches']} launches of graphs in {STEPS} steps; calls between "
          f"launch {counts['first']} and launch {counts['last']}\n")
    print("| list | call | calls | a launch |\n|---|---|---|---|")
    for kind in ("runtime", "driver"):
        for call, number in sorted(counts[kind].items(), key=lambda item: -item[1]):
            print(f"| {kind} | {call.split(' ')[0]} | {number} | {number / launches:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("--cupti", help="libcupti.so.13, where the dynamic linker does not find it")
    parser.add_argument("--text", type=pathlib.Path, help="default: this script",
                        default=pathlib.Path(__file__))
    options = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory(prefix="lockstep-calls-") as folder:
        for name, flags, micro_batches in cases(options.text.resolve()):
            counts = count(options.program, options.library, options.cupti, flags,
                           pathlib.Path(folder))
            print_counts(name, counts)
            found = faults(counts, micro_batches)
            bad += bool(found)
            for fault in found:
                print(f"\nNOT one launch: {name}: {fault}")
    print(f"\nOne launch: {len(cases('')) - bad} of {len(cases(''))} cases")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
