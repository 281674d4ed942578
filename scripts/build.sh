#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures a preset and builds it, quietly unless something is wrong.
#
#   scripts/build.sh PRESET [TARGET...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

preset=${1:?usage: scripts/build.sh PRESET [TARGET...]}
shift
mkdir -p "build/$preset"
log=build/$preset/configure.log

if ! cmake --preset "$preset" >"$log" 2>&1; then
  cat "$log" >&2
  echo "build.sh: configuring the preset '$preset' failed" >&2
  exit 1
fi
jobs=${BUILD_JOBS:-$(nproc)}
cmake --build --preset "$preset" --parallel "$jobs" ${1:+--target "$@"}
