# SPDX-License-Identifier: Apache-2.0
"""compare_pytorch.py --device cuda: runs both in turn on a GPU; tables with what is asked for."""
import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

from comparison_output import commit, print_table, write_table, write_tokens
from peer_python import find_peer
from rank_processes import run_ranks, say
from training_times import least_loss, reached, read_rows, window_ms

PEER = pathlib.Path(__file__).with_name("torch_peer_cuda.py")
TOKENS = 2_000_000  # of a generated file
GIB = 2 ** 30
MISSING = "not measured"
# One GPU a rank is what PyTorch's graphs and NCCL want; a step with DDP is not captured here.
ALONE = ("graph", "compiled-graph", "compiled-overhead")


def gpu():
    """Name, driver and memory; None where no GPU answers."""
    try:
        found = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"],
            capture_output=True, text=True)
    except OSError:
        return None
    return found.stdout.strip().splitlines()[0] if found.returncode == 0 and found.stdout else None


# Lengths. A run is `lead` steps that are not timed and `windows` windows.

def window_of(case, options, share=1.0):
    if options.steps:
        return max(1, options.steps // case.windows)
    return max(2, int(case.window * options.scale * share))


def lead_of(case, window):
    return case.lead or window


# Lockstep.

def data_flags(case, folder, options):
    if case.data == "csv":
        return ["--data", f"csv:{write_table(case, folder)}", "--val-fraction", "0"]
    if case.data == "tokens":
        # Below both vocabularies that it is read with.
        return ["--data", f"tokens:{write_tokens(folder / 'tokens.bin', 50257, TOKENS)}",
                "--val-fraction", "0.1"]
    if case.data == "text":
        return ["--data", f"text:{options.text}"]
    return ["--data", case.data]


def lockstep_command(case, flags, steps, log_every, folder, options, evaluate_every=0):
    return [str(options.build / "lockstep"), "train", "--device", "cuda", "--ranks",
            str(options.ranks), *data_flags(case, folder, options), *case.lockstep, "--precision",
            case.precision, "--global-batch", str(case.global_batch), "--micro-batch",
            str(min(case.micro_batch, case.global_batch // options.ranks)), "--steps", str(steps),
            "--log-every", str(log_every), "--eval-every", str(evaluate_every),
            "--checkpoint-every", "0", "--out", str(folder / "run"), *flags]


def train(command, environment, folder, options):
    """(rows of its metrics, its summary); None where it failed."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    settings = {**os.environ, **environment}
    if options.libraries is not None:
        settings["LD_LIBRARY_PATH"] = options.libraries
    result = subprocess.run(command, capture_output=True, text=True, env=settings)
    if result.returncode != 0:
        say(f"{' '.join(command)}\nfailed with exit code {result.returncode}:\n"
            f"{result.stderr[-2000:]}")
        return None
    return read_rows(folder / "run"), json.loads((folder / "run/summary.json").read_text())


def held_bytes(summary):
    """Most of any GPU's memory that was held while it trained; None where nobody looked."""
    seen = [gpu["memory_bytes"]["most"] for gpu in summary.get("gpus") or []
            if gpu.get("memory_bytes") and gpu["memory_bytes"]["most"]]
    return max(seen, default=None)


def run_lockstep(case, ours, folder, options):
    window = window_of(case, options)
    lead = lead_of(case, window)
    # The log line before the first timed window ends the lead, which is whole windows.
    lead = -(-lead // window) * window
    run = train(lockstep_command(case, ours.flags, lead + window * case.windows, window, folder,
                                 options), ours.environment, folder, options)
    if run is None:
        return None
    times = window_ms(run[0], lead, case.global_batch)
    if len(times) != case.windows:
        say(f"{case.name}: {len(times)} log lines behind step {lead}, expected {case.windows}")
        return None
    return {"step_ms": statistics.median(times), "held_bytes": held_bytes(run[1])}


def run_reach(case, folder, options):
    """The whole training that case.reach describes, in words; None where it failed."""
    goal = case.reach
    command = lockstep_command(case, [], goal.steps, goal.every, folder, options, goal.every)
    run = train(command, {}, folder, options)
    if run is None:
        return None
    rows, summary = run
    first, least = reached(rows, goal.loss), least_loss(rows)
    least = f"least {least[0]:.4f} after step {least[1]}" if least else "no validation"
    whole = f"{summary['wall_s']:.1f} s for all {goal.steps} steps"
    asked = f"asked for: {goal.loss} in {goal.seconds:g} s"
    if first is None:
        return f"validation loss {goal.loss} was not reached ({least}); {whole}; {asked}"
    verdict = "met" if first[1] <= goal.seconds else "NOT met"
    return (f"validation loss {goal.loss} after {first[1]:.1f} s of training (step {first[0]}, "
            f"seed 1; {least}); {whole}; {asked}: {verdict}")


# PyTorch.

def peer_settings(case, mode, options):
    window = window_of(case, options, mode.share)
    batch = case.global_batch // options.ranks
    return {"model": case.model, "widths": case.widths, "gpt": case.gpt, "input": case.image,
            "classes": case.classes, "mode": mode.name, "precision": case.precision,
            "batch": batch, "micro_batch": min(batch, mode.micro_batch or case.micro_batch),
            "optimizer": case.optimizer, "lead": lead_of(case, window), "windows": case.windows,
            "window": window, "device": "cuda",
            "text": str(options.text) if case.data == "text" else None}


def run_peer(python, case, mode, options):
    command = [python, str(PEER), json.dumps(peer_settings(case, mode, options))]
    out = run_ranks(command, options.ranks, threads=4)
    return json.loads(out[0].strip().splitlines()[-1]) if out else None


def modes_of(case, options):
    wanted = options.modes.split(",") if options.modes else [mode.name for mode in case.modes]
    return [mode for mode in case.modes
            if mode.name in wanted and (options.ranks == 1 or mode.name not in ALONE)]


# Measuring.

def contestants_of(case, python, folder, options):
    """{name: a function that measures it once}"""
    contestants = {}
    if options.only != "pytorch":
        for ours in case.ours:
            contestants[ours.name] = lambda ours=ours: run_lockstep(case, ours, folder, options)
    if options.only != "lockstep" and python:
        for mode in modes_of(case, options):
            contestants[mode.name] = lambda mode=mode: run_peer(python, case, mode, options)
    return contestants


def measure(case, contestants, repetitions):
    """({contestant: [reading, ...]}, names that failed), each repetition all of them in turn."""
    readings, failed = {}, []
    for repetition in range(repetitions):
        for name, run in contestants.items():
            if name in failed:
                continue
            if (reading := run()) is None:
                failed.append(name)
                continue
            readings.setdefault(name, []).append(reading)
            say(f"{case.name} {repetition + 1}/{repetitions} {name}: {reading['step_ms']:.4f} ms")
    return readings, failed


def medians(readings):
    return {name: statistics.median(r["step_ms"] for r in of) for name, of in readings.items()}


# The report.

def rate(case, step_ms):
    return case.global_batch * case.per_sample / step_ms * 1e3


def verdict(case, ours_ms, ratio):
    """Whether each asked figure was met; nothing where none is asked for or none was measured."""
    checks = []
    if case.asked_rate and ours_ms:
        checks.append(rate(case, ours_ms) >= case.asked_rate)
    if case.asked_us and ours_ms:
        checks.append(1e3 * ours_ms <= case.asked_us)
    if case.asked_ratio and ratio:
        checks.append(ratio >= case.asked_ratio)
    wanted = sum(bool(asked) for asked in (case.asked_rate, case.asked_us, case.asked_ratio))
    if not wanted:
        return ""
    if False in checks:
        return "NO"
    return "yes" if len(checks) == wanted else MISSING


def summary_row(case, readings):
    median = medians(readings)
    own = min((way.name for way in case.ours if way.name in median), key=median.get, default=None)
    ours = median.get(own)
    best = min((mode.name for mode in case.modes if mode.name in median), key=median.get,
               default=None)
    ratio = median[best] / ours if best and ours else None
    asked = []
    if case.asked_rate:
        asked.append(f"{case.asked_rate:,.0f} {case.unit}")
    if case.asked_us:
        asked.append(f"{case.asked_us:g} us a step")
    if case.asked_ratio:
        asked.append(f"{case.asked_ratio:g}x")
    return [case.name, case.precision, str(case.global_batch),
            f"{1e3 * ours:,.1f}" if ours else MISSING,
            f"{rate(case, ours):,.0f} {case.unit} ({own})" if ours else MISSING,
            f"{rate(case, median[best]):,.0f} ({best})" if best else MISSING,
            f"{ratio:.2f}x" if ratio else MISSING, ", ".join(asked), verdict(case, ours, ratio)]


def held(readings):
    seen = [r["held_bytes"] for r in readings if r.get("held_bytes")]
    return f"{max(seen) / GIB:.2f}" if seen else MISSING


def detail_rows(case, readings, options):
    median = medians(readings)
    first = median.get(case.ours[0].name)
    contestants = [*case.ours, *modes_of(case, options)]
    for name in (contestant.name for contestant in contestants):
        if name not in readings:
            yield [case.name, name, MISSING, "", "", ""]
            continue
        times = [r["step_ms"] for r in readings[name]]
        micro = {r["micro_batch"] for r in readings[name] if "micro_batch" in r}
        accumulated = micro and max(micro) != case.global_batch
        label = f"{name}, micro-batch {max(micro)}" if accumulated else name
        yield [case.name, label, f"{median[name]:.4g} ({min(times):.4g} to {max(times):.4g})",
               f"{rate(case, median[name]):,.0f} {case.unit}",
               f"{median[name] / first:.2f}x" if first else "", held(readings[name])]


def print_report(results, device, peer, options, load):
    version = f"PyTorch {peer[1]} ({peer[2]})" if peer else "PyTorch: not measured"
    shortened = ", --quick: a tenth of the steps, to try it out" if options.quick else ""
    if options.steps:
        shortened = f", --steps {options.steps}: to try it out"
    print(f"### {datetime.date.today()}, {device}, {options.ranks} rank(s), commit {commit()}"
          f"{shortened}\n")
    print(f"{version}, its batches made beforehand in device memory (Lockstep loads its own and "
          "copies them, each step), channels last, fused optimizers, scaled_dot_product_attention, "
          "bf16 by autocast. "
          f"Median of {options.repetitions} runs in turn, each the median of its windows "
          f"behind warm-up and compilation; load average at the start {load:.1f}.\n")
    print_table(["case", "precision", "global batch", "Lockstep, us a step", "best Lockstep",
                 "best PyTorch", "PyTorch / Lockstep, time", "asked for", "met"],
                [summary_row(case, readings) for case, readings, _ in results])
    print()
    print_table(["case", "contestant", "ms a step", "rate", "of Lockstep's time", "GiB held"],
                [row for case, readings, _ in results
                 for row in detail_rows(case, readings, options)])
    for case, _, words in results:
        if words:
            print(f"\n{case.name}: {words}")
    verdicts = [summary_row(case, readings)[-1] for case, readings, _ in results]
    print(f"\ncases met: {verdicts.count('yes')} of {len(verdicts) - verdicts.count('')}, "
          f"{verdicts.count(MISSING)} not measured")


def compare(cases, options):
    """Exit code."""
    if (device := gpu()) is None:
        say("compare_pytorch.py: no GPU answers here (nvidia-smi)")
        return 3
    load, code = os.getloadavg()[0], 0
    peer = find_peer(options.venv, options.python) if options.only != "lockstep" else None
    if options.only != "pytorch" and not (options.build / "lockstep").exists():
        say(f"{options.build / 'lockstep'} is missing: build it")
        return 1
    results = []
    with tempfile.TemporaryDirectory(prefix="lockstep-compare-") as name:
        folder = pathlib.Path(name)
        for case in cases:
            if case.data == "text" and not options.text.exists():
                say(f"{case.name}: no {options.text} (--text): not measured")
                results.append((case, {}, MISSING))
                code = 1
                continue
            contestants = contestants_of(case, peer and peer[0], folder, options)
            readings, failed = measure(case, contestants, options.repetitions)
            words = ""
            if case.reach and options.only != "pytorch" and not (options.quick or options.steps):
                words = run_reach(case, folder, options)
                failed += ["whole training"] if words is None else []
                words = words or MISSING
            code = 1 if failed else code
            results.append((case, readings, words))
    print_report(results, device, peer, options, load)
    return code
