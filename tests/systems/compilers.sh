#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the program with other compilers of this Debian, trains ten steps on one and two ranks with each, and prints
# seconds, warnings and weights_sha256. In a tree of its own:
#
#   bash tests/systems/debian.sh --suite bookworm --keep bash tests/systems/compilers.sh g++-11 clang++-16
#   bash tests/systems/debian.sh --suite trixie --keep bash tests/systems/compilers.sh g++-13 clang++-19
#
# Exit code 1 where one does not compile, a training fails, or one and two ranks end with different weights.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source scripts/environment.sh
(($#)) || { echo "compilers.sh: expected names of compilers, such as g++-13 or clang++-19" >&2 && exit 2; }

scripts/install_dependencies.sh
for compiler; do
  packages=("$compiler")
  # Clang has its own OpenMP library, whose package has the number of Clang's.
  [[ $compiler != clang++-* ]] || packages=("clang-${compiler#clang++-}" "libomp-${compiler#clang++-}-dev")
  DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 --no-install-recommends "${packages[@]}" >/dev/null
  build=build/$compiler
  begin=$SECONDS
  cmake --preset release -B "$build" -DCMAKE_CXX_COMPILER="$compiler" -DLOCKSTEP_CUDA=OFF -DLOCKSTEP_TESTS=OFF >/dev/null
  cmake --build "$build" --target lockstep --parallel "${BUILD_JOBS:-$(nproc)}" 2>&1 | tee "$build/build.log"
  built=$((SECONDS - begin))
  digests=()
  for ranks in 1 2; do
    out=$build/run_$ranks
    rm -rf "$out"
    "$build/lockstep" train --model convnet --data synthetic:28x28x1:10 --ranks "$ranks" --steps 10 --global-batch 32 \
      --micro-batch 8 --out "$out" >"$build/train.log" 2>&1 || { cat "$build/train.log" >&2 && exit 1; }
    digests+=("$(python3 -c 'import json, sys
s = json.load(open(sys.argv[1]))
assert s["ranks"] == int(sys.argv[2])
print(s["weights_sha256"])' "$out/summary.json" "$ranks")")
  done
  "$compiler" --version | head -n 1
  echo "$compiler: built in $built s with $(grep -c 'warning:' "$build/build.log" || true) warnings, ten steps on 1 and 2 ranks: ${digests[*]}"
  [[ ${#digests[0]} == 64 && ${digests[0]} == "${digests[1]}" ]] || { echo "compilers.sh: different weights" >&2 && exit 1; }
done
