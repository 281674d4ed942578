#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every ```sh block of a document, in a folder of its own.

run_document.py PROGRAM SOURCE_TREE DOCUMENT

The annotations are in documents.py. `lockstep` and `build/release/lockstep` are PROGRAM; examples/
is the tree's. Exit code 1 where a block fails, or does not write or print what its annotation says.
"""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from documents import DocumentError, blocks_of
from fixtures import FIXTURES

TIMEOUT_S = 120
PATIENCE_S = 10  # for what was asked to end
MOST_CORES = 2  # what starts a rank on every core is to stay small
FOREIGN = ("OMPI_", "PMI", "PMIX_", "MV2_", "SLURM_", "LOCKSTEP_", "RANK", "WORLD_SIZE", "LOCAL_RANK")

# Stands for the program, and cuts trainings short.
WRAPPER = """#!/usr/bin/env python3
import os, sys
arguments = sys.argv[1:]
if {steps} and arguments[:1] in (["train"], ["run"]) and "--help" not in arguments:
    kept, skip = [], False
    for argument in arguments:
        name = argument.split("=")[0]
        length = name in ("--epochs", "--steps", "--samples")
        if not skip and not length:
            kept.append(argument)
        skip = length and "=" not in argument
    arguments = kept + ["--steps", "{steps}"]
os.execv("{program}", ["{program}"] + arguments)
"""


def environment(folder):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    return {**kept, "PATH": f"{folder}/bin:{kept['PATH']}", "CUDA_VISIBLE_DEVICES": "",
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
            "PRTE_MCA_hwloc_default_binding_policy": "none"}


def put_program(folder, program, steps):
    for name in ("bin/lockstep", "build/release/lockstep"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(WRAPPER.format(steps=steps, program=program))
        path.chmod(0o755)


def run(text, folder):
    """Exit code, or None where it takes too long, and output. What takes too long is asked to end,
    so that mpirun ends its ranks, which have process groups of their own, and is then killed."""
    with subprocess.Popen(["bash", "-eo", "pipefail", "-c", text], cwd=folder,
                          env=environment(folder), stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          start_new_session=True) as process:
        code = None
        for patience, then in ((TIMEOUT_S, signal.SIGTERM), (PATIENCE_S, signal.SIGKILL),
                               (PATIENCE_S, None)):
            try:
                output, _ = process.communicate(timeout=patience)
                code = process.returncode if then == signal.SIGTERM else None
                break
            except subprocess.TimeoutExpired as error:
                output = (error.stdout or b"").decode(errors="replace")
                if then:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, then)
        else:
            process.stdout.close()  # what has left the group still holds it
        return code, output


def troubles_of(block, folder, program):
    """What is wrong with a block, after running it."""
    for name in block.settings["fixture"]:
        if name not in FIXTURES:
            return [f"there is no fixture '{name}', but {', '.join(FIXTURES)}"]
        FIXTURES[name](folder)
    put_program(folder, program, block.one("steps", 0))
    code, output = run(block.text, folder)
    if code is None:
        return [f"took longer than {TIMEOUT_S} s:\n{output}"]
    troubles = []
    if code != block.one("exit", 0):
        troubles.append(f"exit code {code}:\n{output}")
    troubles += [f"did not write {path}" for path in block.settings["writes"]
                 if not any(folder.glob(path))]
    troubles += [f"did not print '{word}':\n{output}" for word in block.settings["prints"]
                 if word not in output]
    return troubles


def main(program, root, document):
    begin, troubles, times, left = time.monotonic(), [], [], []
    with tempfile.TemporaryDirectory(prefix="lockstep-docs-") as name:
        folder = pathlib.Path(name)
        (folder / "examples").symlink_to(root / "examples")
        try:
            for block in blocks_of(document.read_text()):
                if block.not_run:
                    left.append(f"  line {block.line}: {block.not_run}")
                    continue
                begun = time.monotonic()
                troubles += [f"{document.name}:{block.line}: {trouble}\n{block.text}"
                             for trouble in troubles_of(block, folder, program)]
                times.append((time.monotonic() - begun, block.line))
        except DocumentError as error:
            troubles.append(f"{document.name}:{error}")
    slowest = max(times, default=(0, 0))
    print(f"{document.name}: {len(times)} blocks run in {time.monotonic() - begin:.1f} s, the slowest, "
          f"of line {slowest[1]}, in {slowest[0]:.1f} s; {len(left)} not run", *left, *troubles,
          sep="\n")
    return 1 if troubles else 0


if __name__ == "__main__":
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:MOST_CORES])
    sys.exit(main(os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve(),
                  pathlib.Path(sys.argv[3]).resolve()))
