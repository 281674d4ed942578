# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts: what a build and a run on any machine need from the environment.

# Open MPI refuses to start as root unless allowed twice (containers, fresh machines).
if ((EUID == 0)); then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
