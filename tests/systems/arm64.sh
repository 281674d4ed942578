#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Cross-compiles what is committed here for arm64, in a Debian 13 tree of its own (debian.sh), and runs the tests of
# core, operators and communication under qemu's user mode, and a training on two ranks. Emulated: no arm64
# processor takes part. Needs root and debootstrap.
#
#   bash tests/systems/arm64.sh [--root DIR] [--filter REGEX]
#
#   --root DIR      where the tree is kept between calls (default: ~/.cache/lockstep/systems/arm64)
#   --filter REGEX  only tests whose name matches
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

root=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/systems/arm64
filter=.
inside=
while (($#)); do
  case "$1" in
    -h | --help)
      sed -n '3,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --root) root=${2:?--root needs a folder} && shift 2 ;;
    --filter) filter=${2:?--filter needs a regular expression} && shift 2 ;;
    --inside) inside=yes && shift ;;
    *)
      echo "arm64.sh: unknown option '$1' (known: --root, --filter)" >&2
      exit 2
      ;;
  esac
done

if [[ -z $inside ]]; then
  exec bash "$here/debian.sh" --suite trixie --root "$root" --keep bash tests/systems/arm64.sh --inside --filter "$filter"
fi

# In the tree. Open MPI's headers pull in a compiler that does not stand next to the cross-compiler, so that its
# package is unpacked without what it depends on.
log=/root/install.log
if [[ ! -e /root/installed ]]; then
  export DEBIAN_FRONTEND=noninteractive
  {
    dpkg --add-architecture arm64
    apt-get update --quiet
    apt-get install --yes --quiet --no-install-recommends \
      cmake ninja-build ccache g++-aarch64-linux-gnu g++-14-aarch64-linux-gnu:amd64 qemu-user \
      protobuf-compiler python3 openmpi-bin libsimde-dev nlohmann-json3-dev libcli11-dev \
      lib{fmt,jpeg,png,ssl,protobuf,gtest,gmock,dnnl}-dev:arm64 zlib1g-dev:arm64 libopenmpi40:arm64
    (cd /tmp && apt-get download --quiet libopenmpi-dev:arm64 && dpkg --extract libopenmpi-dev_*_arm64.deb /)
  } >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    exit 3
  }
  touch /root/installed
fi

build=build/arm64
cmake --preset release -B "$build" --toolchain "$PWD/tests/systems/aarch64.cmake" -DLOCKSTEP_CUDA=OFF \
  -DLOCKSTEP_BENCHMARKS=OFF >"$log" 2>&1 || { cat "$log" >&2 && exit 1; }
cmake --build "$build" --parallel "$(nproc)" --target lockstep core_test ops_test rank_tests

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_hwloc_default_binding_policy=none
# mpirun is x86-64 and its ranks are emulated: PMIx's shared-memory store maps pointers of one into the other, and any MPI
# program ends in MPI_Init with signal 11 (PMIx 5.0.7, pmix_gds_shmem2_fetch). Its other store sends copies.
export PMIX_MCA_gds=hash
none=(--no-tests=error)
[[ $filter == . ]] || none=()
failed=()
for folder in core ops parallel; do
  labels=cpu
  [[ $folder != parallel ]] || labels=mpi
  # Of a program that is not built there is one test, NAME_NOT_BUILT. Emulated GPU kernels say nothing of arm64, nor
  # does allocation_test, which counts allocations for an hour here.
  ctest --test-dir "$build/tests/$folder" --parallel "$(nproc)" --label-regex "^$labels\$" --tests-regex "$filter" \
    --exclude-regex '_NOT_BUILT$|_emulated|^allocation_test' --output-on-failure "${none[@]}" || failed+=("$folder")
done

# Of data without a validation part, whose 10,000 samples take an emulated processor a quarter of an hour.
for ranks in 1 2; do
  out=/tmp/arm64_$ranks
  rm -rf "$out"
  mpirun --oversubscribe -np "$ranks" qemu-aarch64 "$build/lockstep" train --model convnet \
    --data synthetic:28x28x1:10 --steps 5 --global-batch 32 --micro-batch 8 --out "$out" >"$out.txt" 2>&1 || { cat "$out.txt" >&2 && exit 1; }
  python3 -c 'import json, sys; s = json.load(open(sys.argv[1])); print(s["ranks"], "ranks", s["weights_sha256"])' \
    "$out/summary.json"
done | tee /tmp/arm64_bits.txt
[[ $(cut -d' ' -f3 /tmp/arm64_bits.txt | sort -u | wc -l) == 1 ]] || {
  echo "arm64.sh: one and two ranks ended with different weights" >&2
  exit 1
}
[[ -z ${failed[*]} ]] || {
  echo "arm64.sh: tests failed: ${failed[*]}" >&2
  exit 1
}
