#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lockstep against PyTorch on this machine: both in turn, several repetitions, medians and ratios.

usage: compare_pytorch.py [--cases NAME,...] [--repetitions N] [--build DIR] [--mnist DIR]
                          [--venv DIR] [--only lockstep|pytorch] [--quick]

PyTorch is the newest of the package index, in a virtual environment outside the project, made on
the first call (a GB or so); where the index cannot be reached, Debian's python3-torch; else its
figures are "not measured". The Markdown table it prints is what RESULTS.md holds.
"""
import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

PROJECT = pathlib.Path(__file__).resolve().parents[2]
PEER = pathlib.Path(__file__).with_name("torch_peer.py")
RANKS_TIMEOUT_S = 600


@dataclasses.dataclass
class Case:
    name: str
    goal: str  # what is asked for, in words
    model: str
    global_batch: int
    ranks: int
    steps: int
    lockstep: list  # further flags of `lockstep train`
    widths: tuple = ()  # mlp
    samples: int = 0  # of the generated table; 0: MNIST
    log_every: int = 200
    momentum: float = 0.0
    peer_steps: int = 0  # 0: steps
    ceiling: bool = False  # measure the convolutions alone, too
    modes: tuple = ("eager", "compiled", "compiled-step")


def mlp_case(name, goal, widths, batch, ranks, steps, samples=0):
    hidden = ",".join(str(w) for w in widths[1:-1])
    micro = batch // ranks
    return Case(name, goal, "mlp", batch, ranks, steps, ["--hidden", hidden, "--micro-batch",
                str(micro)], tuple(widths), samples or batch)


CASES = [
    mlp_case("iris", "50x", (4, 10, 3), 120, 1, 20000),
    mlp_case("iris-2-ranks", "50x", (4, 10, 3), 120, 2, 20000),
    # The arithmetic alone grows with the batch: at 120 it takes a third of PyTorch's step, whoever
    # does it. So each network is measured at three sizes.
    mlp_case("mlp-16-64-64-10-batch-4", "20x", (16, 64, 64, 10), 4, 1, 10000, samples=1600),
    mlp_case("mlp-16-64-64-10-batch-16", "20x", (16, 64, 64, 10), 16, 1, 10000, samples=1600),
    mlp_case("mlp-16-64-64-10-batch-120", "20x", (16, 64, 64, 10), 120, 1, 10000, samples=1200),
    mlp_case("mlp-784-32-10-batch-4", "20x", (784, 32, 10), 4, 1, 10000, samples=1600),
    mlp_case("mlp-784-32-10-batch-16", "20x", (784, 32, 10), 16, 1, 10000, samples=1600),
    mlp_case("mlp-784-32-10-batch-120", "20x", (784, 32, 10), 120, 1, 5000, samples=1200),
    Case("convnet", "1.5x, goal 2x", "convnet", 256, 2, 200, ["--micro-batch", "32"],
         log_every=50, momentum=0.9, peer_steps=100),
    Case("resnet18", "90% of the ceiling", "resnet18", 128, 2, 12,
         ["--stem", "cifar", "--micro-batch", "32"], log_every=4, momentum=0.9, peer_steps=6,
         ceiling=True, modes=("eager", "compiled")),
]


def say(text):
    print(text, file=sys.stderr, flush=True)


# The peer.

def torch_version(python):
    probe = subprocess.run([python, "-c", "import torch; print(torch.__version__)"],
                           capture_output=True, text=True)
    return probe.stdout.strip() if probe.returncode == 0 else None


def succeeds(step, command):
    """Whether `command` does; says which step failed where it does not."""
    code = subprocess.run(command, stdout=sys.stderr, check=False).returncode
    if code != 0:
        say(f"{step} failed with exit code {code}: {' '.join(command)}")
    return code == 0


def make_venv(venv):
    """Whether `venv` has a Python now; what was half made is removed."""
    python = venv / "bin" / "python"
    if python.exists():
        return True
    existed = venv.exists()
    say(f"making {venv}")
    if succeeds("making the virtual environment", [sys.executable, "-m", "venv", str(venv)]):
        return True
    if not existed:
        shutil.rmtree(venv, ignore_errors=True)
    return False


def find_peer(venv):
    """(python, version, source), or None where there is no PyTorch."""
    python = str(venv / "bin" / "python")
    if make_venv(venv):
        if not torch_version(python):
            succeeds("installing torch", [python, "-m", "pip", "install", "--quiet", "torch"])
        if version := torch_version(python):
            return python, version, "package index"
    if version := torch_version("/usr/bin/python3"):
        say("no PyTorch from the package index: falling back to Debian's")
        return "/usr/bin/python3", version, "Debian's python3-torch"
    say("no PyTorch: neither the package index nor Debian's python3-torch; its side is not measured")
    return None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_all(processes):
    """None when all ended well, else (rank, why) of the first that did not."""
    deadline = time.monotonic() + RANKS_TIMEOUT_S
    while True:
        codes = [process.poll() for process in processes]
        for rank, code in enumerate(codes):
            if code not in (None, 0):
                return rank, f"failed with exit code {code}"
        if None not in codes:
            return None
        if time.monotonic() > deadline:
            return codes.index(None), f"was not done after {RANKS_TIMEOUT_S} s"
        time.sleep(0.05)


def run_ranks(command, ranks, environment):
    """Standard output of each rank of a command started once per rank; None where one failed or
    they took longer than RANKS_TIMEOUT_S, after the others were ended."""
    shared = {**os.environ, **environment, "WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1",
              "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    with tempfile.TemporaryDirectory(prefix="lockstep-ranks-") as folder:
        outputs = [pathlib.Path(folder) / f"{rank}.out" for rank in range(ranks)]
        errors = [pathlib.Path(folder) / f"{rank}.err" for rank in range(ranks)]
        processes = []
        try:
            for rank in range(ranks):
                with open(outputs[rank], "w") as out, open(errors[rank], "w") as err:
                    processes.append(subprocess.Popen(
                        command, env={**shared, "RANK": str(rank)}, stdout=out, stderr=err))
            failed = wait_for_all(processes)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                process.wait()
        if failed is not None:
            rank, why = failed
            say(f"{command[:2]}: rank {rank} {why}\n{errors[rank].read_text()[-2000:]}")
            return None
        return [path.read_text() for path in outputs]


def run_peer(peer, case, mode, options):
    steps = max(1, int((case.peer_steps or case.steps) * options.scale))
    uses_mnist = case.samples == 0
    settings = {
        "model": case.model, "widths": case.widths, "mode": mode, "steps": steps,
        "batch": case.global_batch // case.ranks, "classes": case.widths[-1] if case.widths else 10,
        "input": [1, 28, 28] if uses_mnist else [case.widths[0]],
        "samples": case.samples, "mnist": str(options.mnist) if uses_mnist else "", "lr": 0.01,
        "momentum": case.momentum, "log_every": case.log_every,
        "warmup": min(steps, 3 if case.ceiling else 20)}
    out = run_ranks([peer[0], str(PEER), json.dumps(settings)], case.ranks, {})
    return json.loads(out[0].strip().splitlines()[-1])["step_ms"] if out else None


# Lockstep.

def write_table(case, folder):
    """A CSV of standard normal features and uniform labels, every class present."""
    path = folder / f"{case.name}.csv"
    if not path.exists():
        generator = random.Random(1)
        features, classes = case.widths[0], case.widths[-1]
        with open(path, "w") as file:
            file.write(",".join(f"x{i}" for i in range(features)) + ",label\n")
            for row in range(case.samples):
                values = (f"{generator.gauss(0, 1):.6f}" for _ in range(features))
                file.write(",".join(values) + f",{row % classes}\n")
    return path


def run_lockstep(program, case, folder, options):
    """Milliseconds a step by the run's own summary, which counts training only."""
    out = folder / "run"
    shutil.rmtree(out, ignore_errors=True)
    if case.samples:
        data = ["--data", f"csv:{write_table(case, folder)}", "--val-fraction", "0"]
    else:
        data = ["--data", f"mnist:{options.mnist}"]
    steps = max(1, int(case.steps * options.scale))
    optimizer = ["--optimizer", "sgd", "--lr", "0.01"]
    if case.momentum:
        optimizer += ["--momentum", str(case.momentum)]
    command = [str(program), "train", "--model", case.model, *data, *case.lockstep,
               "--global-batch", str(case.global_batch), "--steps", str(steps), *optimizer,
               "--log-every", str(case.log_every), "--eval-every", "0",
               "--ranks", str(case.ranks), "--out", str(out)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        say(f"{' '.join(command)}\nfailed:\n{result.stderr[-2000:]}")
        return None
    summary = json.loads((out / "summary.json").read_text())
    return 1e3 * summary["wall_s"] / summary["steps"]


def run_ceiling(program, case):
    """The slower of the ranks that run their convolutions at once; one micro-batch is a step."""
    batch = case.global_batch // case.ranks
    out = run_ranks([str(program), str(batch), "28", "1", "8"], case.ranks, {})
    return max(float(text.split()[1]) for text in out) if out else None


# The report.

def measure(case, peer, options, folder):
    """{contestant: [ms a step, ...]}, each repetition running all contestants in turn."""
    contestants = {}
    program = options.build / "lockstep"
    if options.only != "pytorch":
        if program.exists():
            contestants["lockstep"] = lambda: run_lockstep(program, case, folder, options)
        else:
            say(f"{program} is missing: build it; Lockstep's side is not measured")
    if options.only != "lockstep":
        for mode in case.modes if peer else ():
            contestants[mode] = lambda mode=mode: run_peer(peer, case, mode, options)
    if case.ceiling:
        ceiling = next(options.build.rglob("conv_ceiling"), None)
        if ceiling:
            contestants["ceiling"] = lambda: run_ceiling(ceiling, case)
        else:
            say("conv_ceiling is missing: build it; the ceiling is not measured")
    times = {name: [] for name in contestants}
    for repetition in range(options.repetitions):
        for name, run in list(contestants.items()):
            if (value := run()) is None:
                del contestants[name]  # it would fail again
            else:
                times[name].append(value)
                say(f"{case.name} {repetition + 1}/{options.repetitions} {name}: {value:.4f} ms")
    return {name: values for name, values in times.items() if values}


def row(case, times):
    median = {name: statistics.median(values) for name, values in times.items()}

    def show(name):
        if name not in median:
            return "not measured"
        low, high = min(times[name]), max(times[name])
        return f"{median[name]:.4g} ({low:.4g} to {high:.4g})"

    ours, peers = median.get("lockstep"), [median[m] for m in case.modes if m in median]
    ratio = f"{min(peers) / ours:.2f}x" if ours and peers else "not measured"
    share = f"{median['ceiling'] / ours:.0%}" if ours and "ceiling" in median else "not measured"
    ceiling = f"{show('ceiling')}, {share} of it" if case.ceiling else ""
    modes = [show(m) if m in case.modes else "" for m in ("eager", "compiled", "compiled-step")]
    return [case.name, str(case.ranks), str(case.global_batch), show("lockstep"), *modes, ratio,
            case.goal, ceiling]


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def commit():
    git = subprocess.run(["git", "-C", str(PROJECT), "rev-parse", "--short", "HEAD"],
                         capture_output=True, text=True)
    return git.stdout.strip() or "unknown"


def print_report(rows, peer, options, load):
    header = ["case", "ranks", "global batch", "Lockstep", "PyTorch eager", "compiled",
              "compiled, optimizer too", "best PyTorch / Lockstep", "asked for",
              "convolutions alone"]
    version = f"PyTorch {peer[1]} ({peer[2]})" if peer else "PyTorch: not measured"
    quick = ", --quick: a tenth of the steps, to try it out" if options.quick else ""
    print(f"### {datetime.date.today()}, {processor()}, {len(os.sched_getaffinity(0))} cores, "
          f"commit {commit()}{quick}\n")
    print(f"{version}, one thread a rank, channels last, fused SGD, DDP with gloo. Milliseconds a "
          f"step, median (least to most) of {options.repetitions} runs in turn; load average "
          f"at the start {load:.1f}.\n")
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for cells in rows:
        print("| " + " | ".join(cells) + " |")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cases", default=",".join(case.name for case in CASES))
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--build", type=pathlib.Path, default=PROJECT / "build" / "release")
    parser.add_argument("--mnist", type=pathlib.Path, default=PROJECT.parent / "shared/data/mnist")
    parser.add_argument("--venv", type=pathlib.Path,
                        default=pathlib.Path.home() / ".cache/lockstep/peer-venv")
    parser.add_argument("--only", choices=["lockstep", "pytorch"])
    parser.add_argument("--quick", action="store_true", help="a tenth of the steps, to try it out")
    options = parser.parse_args()
    options.scale = 0.1 if options.quick else 1.0
    known = {case.name: case for case in CASES}
    names = options.cases.split(",")
    if unknown := [name for name in names if name not in known]:
        parser.error(f"unknown case {unknown[0]}; cases: {', '.join(known)}")
    if options.repetitions < 1:
        parser.error("--repetitions must be at least 1")
    options.mnist = options.mnist.resolve()
    return options, [known[name] for name in names]


def main():
    options, cases = parse()
    load = os.getloadavg()[0]
    peer = find_peer(options.venv) if options.only != "lockstep" else None
    rows = []
    with tempfile.TemporaryDirectory(prefix="lockstep-compare-") as folder:
        for case in cases:
            if case.samples == 0 and not options.mnist.is_dir():
                say(f"{case.name}: no MNIST in {options.mnist} (--mnist DIR): not measured")
                rows.append(row(case, {}))
                continue
            rows.append(row(case, measure(case, peer, options, pathlib.Path(folder))))
    print_report(rows, peer, options, load)


if __name__ == "__main__":
    main()
