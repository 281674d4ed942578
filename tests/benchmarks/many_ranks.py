#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a run of many ranks on one host takes to start, and what each rank holds.

many_ranks.py [--program FILE] [--steps N] [--hidden N,N] [ranks...]      (default: 64)

Starts `lockstep train` of an mlp on that many ranks, far more than cores, and prints a row for each:
  started       seconds until all ranks are processes
  begun         seconds until rank 0 writes its log: MPI, device, data and agreement on the folder are there
  first step    seconds until the first step is logged
  step          milliseconds of the later steps, median
  PSS, private  MiB of a rank, mean over up to 32 ranks, while they train: pages that processes share
                count for each in part, or not at all
  anonymous     of the private ones, what no file lies behind: heap, stacks and data
  threads       of a rank
  logs          files in logs/
  bits          whether the weights are those of one rank

Seconds are those of a machine that has too few cores; bytes are not.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PROJECT = pathlib.Path(__file__).resolve().parents[2]
LIMIT_S = 1200
MAX_SAMPLED = 32  # ranks whose memory is read: each has to wait for its turn among all of them
SHARDS = 256
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def train(options, out):
    return [options.program, "train", "--model=mlp", f"--hidden={options.hidden}", "--data=synthetic:28x28x1:10",
            "--global-batch=512", "--micro-batch=2", f"--shards={SHARDS}", f"--steps={options.steps}", "--log-every=1",
            "--noise-scale-every=0", "--eval-every=0", "--checkpoint-every=0", "--tensorboard=off",
            "--timeout=300", "--timeout-start=900", f"--out={out}"]


def ranks_of(out):
    """Processes of the run, but for their launcher."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # ended meanwhile
        if f"--out={out}".encode() in words and b"train" in words[1]:
            found.append(process)
    return found


def memory_of(process):
    """MiB by name of smaps_rollup."""
    lines = (process / "smaps_rollup").read_text().splitlines()[1:]
    rows = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines}
    return {"pss": rows["Pss"], "private": rows["Private_Clean"] + rows["Private_Dirty"],
            "anonymous": rows["Anonymous"], "threads": len(list((process / "task").iterdir()))}


def wait_for(run, what, reached):
    deadline = time.monotonic() + LIMIT_S
    while not reached():
        if run.poll() is not None:
            raise RuntimeError(f"the run ended with code {run.returncode} before {what}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {LIMIT_S} s: {what}")
        time.sleep(0.1)


def has_text(path):
    return path.exists() and path.stat().st_size > 0


def measure(options, ranks, folder):
    out = folder / str(ranks)
    begin = time.monotonic()
    seconds, memory = {}, []
    with open(folder / f"{ranks}.out", "w") as output:
        # With the ranks' priority this script would not see when what happens.
        run = subprocess.Popen(["nice", "-n", "5", "mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks),
                                *train(options, out)],
                               env=ENVIRONMENT, stdout=output, stderr=subprocess.STDOUT)
        try:
            for name, reached in (("started", lambda: len(ranks_of(out)) == ranks),
                                  ("begun", lambda: has_text(out / "logs/rank_0.log")),
                                  ("first", lambda: has_text(out / "metrics.jsonl"))):
                wait_for(run, name, reached)
                seconds[name] = time.monotonic() - begin
            found = ranks_of(out)
            memory = [memory_of(process) for process in found[::max(1, len(found) // MAX_SAMPLED)]]
            # With hundreds of ranks a core Open MPI's launcher may see a rank's exit before it hears
            # that the rank has left MPI, and then ends with 1.
            if run.wait(timeout=LIMIT_S) != 0:
                print(f"mpirun ended with code {run.returncode}", file=sys.stderr)
                if not has_text(out / "summary.json"):
                    raise RuntimeError("the run has no summary")
        except BaseException:
            print((folder / f"{ranks}.out").read_text()[-2000:], file=sys.stderr)
            raise
        finally:
            run.terminate()
            run.wait()
    steps = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return {"seconds": seconds,
            "memory": {name: statistics.mean(rank[name] for rank in memory) for name in memory[0]},
            "step_ms": statistics.median([step["step_ms"] for step in steps if "step_ms" in step][1:]),
            "logs": sum(path.is_file() for path in (out / "logs").iterdir()),
            "sha256": json.loads((out / "summary.json").read_text())["weights_sha256"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", default=PROJECT / "build/release/lockstep", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--hidden", default="256,256")
    parser.add_argument("ranks", nargs="*", type=int, default=[64])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lockstep-ranks-") as name:
        folder = pathlib.Path(name)
        alone = folder / "1"
        subprocess.run(train(options, alone) + ["--ranks=1"], check=True, stdout=subprocess.DEVNULL)
        expected = json.loads((alone / "summary.json").read_text())["weights_sha256"]
        print("| ranks | started | begun | first step | step | PSS | private | anonymous | threads | logs | bits |\n"
              "|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
        for ranks in options.ranks:
            row = measure(options, ranks, folder)
            seconds, memory = row["seconds"], row["memory"]
            print(f"| {ranks} | {seconds['started']:.1f} s | {seconds['begun']:.1f} s | {seconds['first']:.1f} s "
                  f"| {row['step_ms']:.1f} ms | {memory['pss']:.1f} MiB | {memory['private']:.1f} MiB "
                  f"| {memory['anonymous']:.1f} MiB | {memory['threads']:.0f} | {row['logs']} "
                  f"| {'equal' if row['sha256'] == expected else 'DIFFER'} |", flush=True)


if __name__ == "__main__":
    main()
