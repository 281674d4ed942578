#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The mpirun of one MPI starts a program of another: two_mpis_test.py LOCKSTEP OPEN_MPI|MPICH.

The second argument is the MPI that the program was built with. The test sets the variables of the other
one's mpirun. Each rank then is the only one that its MPI knows of, and must refuse to train alone.
"""
import os
import subprocess
import sys
import tempfile

program, mpi = sys.argv[1:]
rank, size = {"OPEN_MPI": ("PMI_RANK", "PMI_SIZE"), "MPICH": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")}[mpi]
launchers = ("OMPI_", "PMI", "PRTE_", "SLURM_")
clean = {name: value for name, value in os.environ.items()
         if not name.startswith(launchers) or name.startswith("OMPI_ALLOW_RUN_AS_ROOT")}
with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run(
        [program, "train", "--data", "synthetic:8x8x1:4", "--model", "mlp", "--device", "cpu", "--steps", "2",
         "--out", folder + "/run"],
        env=clean | {rank: "0", size: "2"}, capture_output=True, text=True, check=False, timeout=120)
    trained = os.path.exists(folder + "/run/summary.json")
text = done.stdout + done.stderr
assert done.returncode == 3, f"exit code {done.returncode}: {text}"
assert not trained, "the rank trained alone"
for word in (rank, "rank 0 of 2", "but MPI says rank 0 of 1", "libmpi", "use the mpirun of the MPI that Lockstep was built with"):
    assert word in text, f"'{word}' is missing in: {text}"
