#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lockstep against PyTorch on this machine: both in turn, several repetitions, medians and ratios.

usage: compare_pytorch.py [--device cpu|cuda] [--cases NAME,...] [--repetitions N] [--build DIR]
                          [--mnist DIR] [--text FILE] [--venv DIR | --python FILE]
                          [--only lockstep|pytorch] [--quick] [--steps N]
                          with --device cuda: [--ranks N] [--modes NAME,...] [--libraries PATH]

On a GPU, PyTorch is eager, compiled in several modes and in CUDA graphs (torch_peer_cuda.py), and
the tables have what is asked for on one H100 beside what was measured; exit code 1 where something
failed to run, 3 where no GPU answers. Two ranks of either that share a GPU are no measurement of a
system with two.

PyTorch is the newest of the package index, in a virtual environment outside the project, made on
the first call (a GB or so); where the index cannot be reached, Debian's python3-torch; else its
figures are "not measured". The Markdown tables it prints are what RESULTS.md holds.
"""
import argparse
import datetime
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

import compare_cuda
from comparison_cases import CASES
from comparison_cases_cuda import CUDA_CASES
from comparison_output import PROJECT, commit, print_table, processor, write_table, write_tokens
from peer_python import find_peer
from rank_processes import run_ranks, say

PEER = pathlib.Path(__file__).with_name("torch_peer.py")
# Next to the project, where LOCKSTEP_TEST_DATA does not say otherwise.
DATA = pathlib.Path(os.environ.get("LOCKSTEP_TEST_DATA", PROJECT.parent / "shared/data"))


def steps_of(steps, options):
    return options.steps or max(1, int(steps * options.scale))


def tokens_of(case, folder):
    """A file of random tokens, in which one in ten is for validation."""
    return write_tokens(folder / f"{case.name}.bin", case.gpt["vocabulary"], 400_000)


def run_peer(python, case, peer, folder, options):
    steps = steps_of(case.peer_steps or case.steps, options)
    settings = {
        "model": case.model, "widths": case.widths, "gpt": case.gpt, "classes": case.classes,
        "input": [case.widths[0]] if case.widths else case.image, "samples": case.samples,
        "batch": case.global_batch // peer.ranks, "mode": peer.mode, "precision": peer.precision,
        "threads": peer.threads, "optimizer": case.optimizer, "steps": steps,
        "warmup": min(steps, case.warmup), "log_every": case.log_every}
    if case.data in ("mnist", "text"):
        settings[case.data] = str(getattr(options, case.data))
    if case.data == "tokens":
        settings["tokens"] = str(tokens_of(case, folder))
    out = run_ranks([python, str(PEER), json.dumps(settings)], peer.ranks, peer.threads)
    return json.loads(out[0].strip().splitlines()[-1])["step_ms"] if out else None


def data_flags(case, folder, options):
    if case.data == "csv":
        return ["--data", f"csv:{write_table(case, folder)}", "--val-fraction", "0"]
    if case.data in ("mnist", "text"):
        return ["--data", f"{case.data}:{getattr(options, case.data)}"]
    if case.data == "tokens":
        return ["--data", f"tokens:{tokens_of(case, folder)}", "--vocabulary", str(case.gpt["vocabulary"])]
    return ["--data", case.data]


def run_lockstep(program, case, flags, folder, options):
    """Milliseconds a step by the run's own summary, which counts training only."""
    out = folder / "run"
    shutil.rmtree(out, ignore_errors=True)
    command = [str(program), "train", "--model", case.model, *data_flags(case, folder, options),
               *case.lockstep, *flags, "--global-batch", str(case.global_batch), "--steps",
               str(steps_of(case.steps, options)), "--log-every", str(case.log_every),
               "--eval-every", "0", "--ranks", str(case.ranks), "--out", str(out)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        say(f"{' '.join(command)}\nfailed:\n{result.stderr[-2000:]}")
        return None
    summary = json.loads((out / "summary.json").read_text())
    return 1e3 * summary["wall_s"] / summary["steps"]


def run_ceiling(program, case, ceiling, options):
    """The slower of the ranks that run their convolutions at once; one micro-batch is a step."""
    batch = case.global_batch // case.ranks
    repetitions = min(8, steps_of(8, options))
    arguments = (batch, ceiling.image_size, ceiling.channels, repetitions, ceiling.precision,
                 ceiling.network)
    out = run_ranks([str(program), *map(str, arguments)], case.ranks)
    return max(float(text.split()[1]) for text in out) if out else None


def contestants_of(case, python, options, folder):
    """{name: a function that measures it once}"""
    contestants = {}
    program = options.build / "lockstep"
    if options.only != "pytorch":
        if program.exists():
            for name, flags in case.ours.items():
                contestants[name] = lambda flags=flags: run_lockstep(program, case, flags, folder,
                                                                     options)
        else:
            say(f"{program} is missing: build it; Lockstep's side is not measured")
    if options.only != "lockstep" and python:
        for peer in case.peers:
            contestants[peer.name] = lambda peer=peer: run_peer(python, case, peer, folder, options)
    if case.ceilings:
        program_alone = next(options.build.rglob("conv_ceiling"), None)
        if program_alone:
            for ceiling in case.ceilings:
                contestants[ceiling.name] = lambda ceiling=ceiling: run_ceiling(program_alone, case,
                                                                                ceiling, options)
        else:
            say("conv_ceiling is missing: build it; the ceiling is not measured")
    return contestants


def measure(case, contestants, options):
    """{contestant: [ms a step, ...]}, each repetition running all contestants in turn."""
    times = {name: [] for name in contestants}
    for repetition in range(options.repetitions):
        for name, run in list(contestants.items()):
            if (value := run()) is None:
                del contestants[name]  # it would fail again
            else:
                times[name].append(value)
                say(f"{case.name} {repetition + 1}/{options.repetitions} {name}: {value:.4f} ms")
    return {name: values for name, values in times.items() if values}


# The report.

def summary_row(case, times):
    median = {name: statistics.median(values) for name, values in times.items()}
    first = median.get(next(iter(case.ours)))
    best = min((peer.name for peer in case.peers if peer.name in median), key=median.get,
               default=None)
    shown = f"{median[best]:.4g} ({best})" if best else "not measured"
    ratio = f"{median[best] / first:.2f}x" if best and first else "not measured"
    share = ""
    if case.ceilings:
        ceiling = median.get(case.ceilings[0].name)
        share = f"{ceiling / first:.0%}" if ceiling and first else "not measured"
    return [case.name, str(case.ranks), str(case.global_batch),
            f"{first:.4g}" if first else "not measured", shown, ratio, share, case.goal]


def detail_rows(case, times):
    first = next(iter(case.ours))
    for name in [*case.ours, *(peer.name for peer in case.peers), *(c.name for c in case.ceilings)]:
        if name not in times:
            yield [case.name, name, "not measured", ""]
            continue
        values = times[name]
        median = statistics.median(values)
        against = f"{median / statistics.median(times[first]):.2f}x" if first in times else ""
        yield [case.name, name, f"{median:.4g} ({min(values):.4g} to {max(values):.4g})", against]


def print_report(results, peer, options, load):
    version = f"PyTorch {peer[1]} ({peer[2]})" if peer else "PyTorch: not measured"
    shortened = ", --quick: a tenth of the steps, to try it out" if options.quick else ""
    if options.steps:
        shortened = f", --steps {options.steps}: to try it out"
    print(f"### {datetime.date.today()}, {processor()}, {len(os.sched_getaffinity(0))} cores, "
          f"commit {commit()}{shortened}\n")
    print(f"{version}, channels last, fused optimizers, scaled_dot_product_attention, DDP with gloo, "
          f"bf16 by autocast; eager 2x1 is two ranks of one thread. Milliseconds a step, median "
          f"(least to most) of {options.repetitions} runs in turn; load average at the start "
          f"{load:.1f}.\n")
    print_table(["case", "ranks", "global batch", "Lockstep", "best PyTorch",
                 "best PyTorch / Lockstep", "of the convolutions' ceiling", "asked for"],
                [summary_row(case, times) for case, times in results])
    print()
    print_table(["case", "contestant", "ms a step", "of Lockstep's time"],
                [row for case, times in results for row in detail_rows(case, times)])


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--cases", help="default: all of the device")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--build", type=pathlib.Path, default=PROJECT / "build" / "release")
    parser.add_argument("--mnist", type=pathlib.Path, default=DATA / "mnist")
    parser.add_argument("--text", type=pathlib.Path, default=DATA / "tinyshakespeare.txt")
    parser.add_argument("--venv", type=pathlib.Path,
                        default=pathlib.Path.home() / ".cache/lockstep/peer-venv")
    parser.add_argument("--python", help="one that has PyTorch, instead of a virtual environment")
    parser.add_argument("--only", choices=["lockstep", "pytorch"])
    parser.add_argument("--quick", action="store_true", help="a tenth of the steps, to try it out")
    parser.add_argument("--steps", type=int, default=0, help="so many of every case, to try it out")
    parser.add_argument("--ranks", type=int, default=1, help="cuda: of Lockstep and of PyTorch")
    parser.add_argument("--modes", help="cuda: modes of PyTorch to run; default: the cases' own")
    parser.add_argument("--libraries",
                        help="cuda: LD_LIBRARY_PATH of Lockstep alone, as PyTorch brings its own")
    options = parser.parse_args()
    options.scale = 0.1 if options.quick else 1.0
    known = {case.name: case for case in (CUDA_CASES if options.device == "cuda" else CASES)}
    names = options.cases.split(",") if options.cases else list(known)
    if unknown := [name for name in names if name not in known]:
        parser.error(f"unknown case {unknown[0]}; cases: {', '.join(known)}")
    if options.repetitions < 1 or options.steps < 0 or options.ranks < 1:
        parser.error("--repetitions and --ranks must be at least 1, --steps not negative")
    options.mnist, options.text = options.mnist.resolve(), options.text.resolve()
    return options, [known[name] for name in names]


def has_data(case, options):
    source = getattr(options, case.data, None) if case.data in ("mnist", "text") else None
    if source is None or source.exists():
        return True
    say(f"{case.name}: no {source} (--{case.data}): not measured")
    return False


def main():
    options, cases = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends ranks, removes files
    if options.device == "cuda":
        sys.exit(compare_cuda.compare(cases, options))
    load = os.getloadavg()[0]
    peer = find_peer(options.venv, options.python) if options.only != "lockstep" else None
    results = []
    with tempfile.TemporaryDirectory(prefix="lockstep-compare-") as name:
        for case in cases:
            contestants = {}
            if has_data(case, options):
                contestants = contestants_of(case, peer and peer[0], options, pathlib.Path(name))
            results.append((case, measure(case, contestants, options)))
    print_report(results, peer, options, load)


if __name__ == "__main__":
    main()
