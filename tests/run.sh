#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds Lockstep with its tests and runs them, from any folder.
#
#   bash tests/run.sh [--preset NAME] [--label REGEX]... [--exclude REGEX] [--filter REGEX]
#
#   --preset NAME    release (default), debug, asan-ubsan or tsan
#   --label REGEX    only tests with such a CTest label; given twice, tests with both
#   --exclude REGEX  not the tests with such a label (default: gpu and kit, unless a --label names them)
#   --filter REGEX   only tests whose name matches
#
# Of the test programs that start several ranks one runs at a time, of the tests that have the built program
# start some another one, both from the start and concurrently with the others; those that watch times run
# alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

preset=release
exclude=
selection=()
while (($#)); do
  case "$1" in
    -h | --help)
      sed -n '3,14s/^# \{0,1\}//p' tests/run.sh
      exit 0
      ;;
    --preset | --label | --exclude | --filter)
      if (($# < 2)); then
        echo "run.sh: $1 needs a value" >&2
        exit 2
      fi
      case "$1" in
        --preset) preset=$2 ;;
        --label) selection+=(--label-regex "$2") ;;
        --exclude) exclude=$2 ;;
        --filter) selection+=(--tests-regex "$2") ;;
      esac
      shift 2
      ;;
    *)
      echo "run.sh: unknown option '$1' (known: --preset, --label, --exclude, --filter)" >&2
      exit 2
      ;;
  esac
done

# Tests for a GPU, and those of its kit (tests/gpu), which take minutes, run where they are asked for by name.
if [[ -z $exclude ]]; then
  exclude='^(gpu|kit)$'
  [[ " ${selection[*]} " == *gpu* || " ${selection[*]} " == *kit* ]] && exclude='^$'
fi

scripts/install_dependencies.sh
scripts/build.sh "$preset"
ctest --test-dir "build/$preset" --parallel "$(($(nproc) + 1))" --output-on-failure --no-tests=error \
  --label-exclude "$exclude" "${selection[@]}"
