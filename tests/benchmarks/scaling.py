#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the cost model predicts what is then measured.

scaling.py [--build DIR] [--repeats N] [--steps N] [crowded] [hosts]

crowded  `lockstep scale` on 1, 2 and 4 ranks of this host, 4 held out: the step of 4 ranks, on
         however few cores, predicted from 1 and 2; weak and strong.
hosts    Two hosts, played by network namespaces with links of limited bandwidth to a switch
         between them (network_hosts.py), one rank on each: predicted by `lockstep plan --network FILE` from a rank
         that talks to nobody, and bandwidth and latency of plain TCP over that link. Needs root, ip,
         tc and two cores; it says so where it is left out.

Prints a table of predicted and measured steps. Exit code 1 where one is off by more than 10%, 77
where nothing could be measured. On a machine that does nothing else: the numbers are times.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from network_hosts import ENVIRONMENT, CannotRun, Hosts, beside, end_by_exception, run

PROJECT = pathlib.Path(__file__).resolve().parents[2]
LARGEST_ERROR = 0.10
SKIPPED = 77
RATE_MBIT = 1000
CASES = {
    "convnet": ("--model=convnet", "--data=synthetic:28x28x1:10", "--global-batch=128",
                "--micro-batch=16"),
    "mlp": ("--model=mlp", "--hidden=512,512", "--data=synthetic:28x28x1:10",
            "--global-batch=512", "--micro-batch=64"),
}
QUIET = ("--eval-every=0", "--checkpoint-every=0")
WINDOWS = 6


def crowded(options, folder):
    for name, flags in CASES.items():
        out = folder / f"crowded-{name}"
        run(options.program, "scale", "--ranks=1,2,4", "--hold-out=4", f"--repeats={options.repeats}",
            f"--steps={options.steps}", f"--out={out}", *flags)
        for point in json.loads((out / "scale.json").read_text())["points"]:
            if point["held_out"]:
                yield (f"{name}, {point['mode']}, {point['ranks']} ranks on {os.cpu_count()} cores",
                       point["predicted"]["step_ms"], point["step_ms"]["median"])


def step_alone_ms(machine, out, *train):
    """A step of one rank, with another one at work that it never talks to: these hosts share
    memory and clock, as real ones do not."""
    with beside(machine.inside(1, *train, f"--out={out}-other"),
                stdout=subprocess.DEVNULL, env=ENVIRONMENT) as other:
        run(*machine.inside(0, *train, f"--out={out}"))
        if other.wait(timeout=600) != 0:
            raise RuntimeError(f"{out}-other failed")
    return step_ms(pathlib.Path(out))


def step_ms(folder):
    """The median of the logged windows but the first."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return statistics.median([line["step_ms"] for line in lines if "step_ms" in line][1:])


def with_batch(flags, divisor):
    """The flags for a share of the global batch."""
    return [f"--global-batch={int(f.split('=')[1]) // divisor}" if f.startswith("--global-batch")
            else f for f in flags]


def hosts(options, folder):
    with Hosts(folder, 2, rate_mbit=RATE_MBIT) as machine:
        rate, latency = machine.tcp_bytes_per_s(), machine.latency_s()
        print(f"link: {rate / 1e6:.1f} MB/s of TCP, {latency * 1e6:.0f} us", flush=True)
        network = folder / "network.toml"
        network.write_text(f"ranks_per_host = 1\nbetween_latency_us = {latency * 1e6:.3f}\n"
                           f"between_bandwidth_GBps = {rate / 1e9:.6f}\n")
        length = [f"--steps={options.steps}", f"--log-every={options.steps // WINDOWS}", *QUIET]
        for name, flags in CASES.items():
            alone, both = [], []
            for repeat in range(options.repeats):
                alone.append(step_alone_ms(
                    machine, f"{folder}/alone-{name}-{repeat}", options.program, "train", "--ranks=1",
                    *length, *with_batch(flags, 2)))
                out = folder / f"hosts-{name}-{repeat}"
                run(*machine.mpirun(options.program, "train", f"--out={out}", *length, *flags))
                both.append(step_ms(out))
            plan = json.loads(run(options.program, "plan", "--json", "--ranks=2", "--device=cpu",
                                  f"--network={network}", f"--step-ms={statistics.median(alone)}",
                                  *flags))
            row = plan["forecast"]["rows"][1]["strong"]
            yield (f"{name}, 2 hosts, {RATE_MBIT} Mbit/s, {row['exposed_ms']:.1f} ms exposed",
                   row["step_ms"], statistics.median(both))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=PROJECT / "build/release")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("what", nargs="*", choices=["crowded", "hosts", []], default=[])
    options = parser.parse_args()
    end_by_exception()
    options.program = (options.build / "lockstep").resolve()
    rows = 0
    worst = 0.0
    with tempfile.TemporaryDirectory(prefix="lockstep-scaling-") as name:
        for what in options.what or ["crowded", "hosts"]:
            try:
                for label, predicted, measured in {"crowded": crowded, "hosts": hosts}[what](
                        options, pathlib.Path(name)):
                    error = predicted / measured - 1
                    worst = max(worst, abs(error))
                    rows += 1
                    print(f"{label:<60} predicted {predicted:9.3f} ms  measured {measured:9.3f} ms"
                          f"  {error:+6.1%}{'' if abs(error) <= LARGEST_ERROR else '  TOO FAR'}",
                          flush=True)
            except CannotRun as reason:
                print(f"{what}: left out: {reason}")
    if rows == 0:
        return SKIPPED
    return int(worst > LARGEST_ERROR)


if __name__ == "__main__":
    sys.exit(main())
