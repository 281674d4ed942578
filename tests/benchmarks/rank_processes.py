# SPDX-License-Identifier: Apache-2.0
"""Starts a command once per rank, and ends all of them when one fails."""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

# Compiling with every search that PyTorch has takes minutes.
RANKS_TIMEOUT_S = 1500


def say(text):
    print(text, file=sys.stderr, flush=True)


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


def run_ranks(command, ranks, threads=1):
    """Standard output of each rank of a command started once per rank; None where one failed or
    they took longer than RANKS_TIMEOUT_S, after the others were ended."""
    shared = {**os.environ, "WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": str(threads),
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
