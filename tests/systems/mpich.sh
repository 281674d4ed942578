#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds what is committed here with MPICH in place of Open MPI, in a Debian 13 tree of its own (debian.sh), and runs
# the tests of communication under its mpiexec, and a training on one and two ranks. Needs root and debootstrap.
#
#   bash tests/systems/mpich.sh [--root DIR] [--filter REGEX]
#
#   --root DIR      where the tree is kept between calls (default: ~/.cache/lockstep/systems/mpich)
#   --filter REGEX  only tests whose name matches
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

root=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/systems/mpich
filter=.
inside=
while (($#)); do
  case "$1" in
    -h | --help)
      sed -n '3,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --root) root=${2:?--root needs a folder} && shift 2 ;;
    --filter) filter=${2:?--filter needs a regular expression} && shift 2 ;;
    --inside) inside=yes && shift ;;
    *)
      echo "mpich.sh: unknown option '$1' (known: --root, --filter)" >&2
      exit 2
      ;;
  esac
done

if [[ -z $inside ]]; then
  exec bash "$here/debian.sh" --suite trixie --root "$root" --keep bash tests/systems/mpich.sh --inside --filter "$filter"
fi

# In the tree.
log=/root/install.log
if [[ ! -e /root/installed ]]; then
  mapfile -t packages < <(scripts/install_dependencies.sh --dry-run | grep -v openmpi)
  {
    apt-get update --quiet
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends mpich libmpich-dev "${packages[@]}"
  } >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    exit 3
  }
  touch /root/installed
fi

build=build/release  # as chosen_tests.sh has it, so that a compiler cache may serve both
cmake --preset release -DLOCKSTEP_WERROR=ON -DLOCKSTEP_CUDA=OFF -DLOCKSTEP_BENCHMARKS=OFF >"$log" 2>&1 ||
  { cat "$log" >&2 && exit 1; }
cmake --build "$build" --parallel "$(nproc)" --target lockstep rank_tests

# Of a program that is not built there is one test, NAME_NOT_BUILT.
ctest --test-dir "$build/tests/parallel" --parallel "$(nproc)" --label-regex '^mpi$' --tests-regex "$filter" \
  --exclude-regex '_NOT_BUILT$' --output-on-failure --no-tests=error

for ranks in 1 2; do
  out=/tmp/mpich_$ranks
  rm -rf "$out"
  mpiexec -n "$ranks" "$build/lockstep" train --model convnet --steps 20 --global-batch 32 --micro-batch 8 --out "$out" \
    >"$out.txt" 2>&1 || { cat "$out.txt" >&2 && exit 1; }
  python3 -c 'import json, sys; s = json.load(open(sys.argv[1])); print(s["ranks"], "ranks", s["weights_sha256"])' \
    "$out/summary.json"
done | tee /tmp/mpich_bits.txt
[[ $(cut -d' ' -f3 /tmp/mpich_bits.txt | sort -u | wc -l) == 1 ]] || {
  echo "mpich.sh: one and two ranks ended with different weights" >&2
  exit 1
}
