#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What .ci/run does not do under sanitizers: tests that start ranks, under address and undefined-behaviour checks,
# and tests of threads, those of the watchdog and the loader, under thread checks. Builds what they need.
#
#   bash tests/parallel/sanitizers.sh asan|tsan [--filter REGEX] [--build-only] [--jobs N]
#
#   asan          tests with the label mpi (preset asan-ubsan)
#   tsan          tests of the watchdog and the loader, and communicators under mpirun (preset tsan)
#   --filter      only tests whose name matches
#   --build-only  runs none
#   --jobs N      compilers at a time (default: as many as cores)
#
# sanitizers_results.md says what was run, and what it found.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
source scripts/environment.sh

usage() {
  sed -n '3,14s/^# \{0,1\}//p' "$here/sanitizers.sh"
  exit "$1"
}

kind=${1:-}
[[ $kind == -h || $kind == --help ]] && usage 0
[[ $kind == asan || $kind == tsan ]] || usage 2 >&2
shift
filter=
build_only=
export BUILD_JOBS
BUILD_JOBS=$(nproc)
while (($#)); do
  case "$1" in
    --filter) filter=${2:?--filter needs a value} && shift 2 ;;
    --jobs) BUILD_JOBS=${2:?--jobs needs a number} && shift 2 ;;
    --build-only) build_only=yes && shift ;;
    *) usage 2 >&2 ;;
  esac
done

if [[ $kind == asan ]]; then
  preset=asan-ubsan
  targets=(rank_tests lockstep)
  selection=(--label-regex '^mpi$')
  run=() run_tests=()
  # Open MPI never frees some of what it allocates at start: tests/CMakeLists.txt sets ASAN_OPTIONS for ranks.
  export UBSAN_OPTIONS=print_stacktrace=1
else
  preset=tsan
  targets=(watch_test rank_agreement_test data_test watched_communicator_test)
  selection=(--tests-regex '^(watch_test|ListenerGuard|Loader|ReducedDataset|WorkerControl|watched_communicator)')
  # Of the programs that are one test each; not for the build, which asks programs for their tests.
  run_tests=(env GTEST_FILTER='Watch*:CheckedMode*:FailureDetector*:FaultRecord*:ListenerGuard*:ForeignConnections*')
  # GCC 12's and clang 14's library fails to find room for its shadow where the kernel randomizes addresses by
  # more than 28 bits (vm.mmap_rnd_bits), as newer ones do. Without randomization it is always where it expects.
  run=(setarch -R)
  "${run[@]}" true 2>/dev/null || run=()
  # Ranks of the tests are forked from a process that may have had threads. No suppressions: Open MPI, which is not
  # compiled with checks, causes no report in these tests, but does where its calls are ignored (called_from_lib).
  export TSAN_OPTIONS="die_after_fork=0 halt_on_error=1 second_deadlock_stack=1"
fi
if [[ $filter ]]; then
  if [[ $preset == tsan ]]; then
    echo "sanitizers.sh: --filter goes with asan alone: of tsan only the chosen tests are built" >&2
    exit 2
  fi
  selection+=(--tests-regex "$filter")
fi

# .ci/run configures the same folder without them.
"${run[@]}" cmake --preset "$preset" -DLOCKSTEP_MPI_TESTS=ON >/dev/null
"${run[@]}" scripts/build.sh "$preset" "${targets[@]}"
[[ $build_only ]] && exit
"${run[@]}" "${run_tests[@]}" ctest --test-dir "build/$preset" --parallel "$(($(nproc) + 1))" --output-on-failure --no-tests=error \
  "${selection[@]}"
