#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzzers and runs them, from any folder; prints a line for each target.
#
#   bash tests/fuzz/run.sh [--seconds N] [--input-seconds N] [--jobs J] [--work DIR] [--coverage] [--minimise]
#                          [TARGET...]
#
#   --seconds N   for each target (default 60; an hour: 3600; 0: none, for --coverage alone)
#   --input-seconds N  that an input may take by the clock (default 10); more where other programs
#                 have the processor
#   --jobs J      targets at the same time (default 1)
#   --work DIR    where DIR/corpus/TARGET grows from run to run, DIR/findings takes inputs that are
#                 findings, and DIR/logs what the fuzzers say (default build/fuzz/work)
#   --coverage    then print which share of the parsers' files (parsers.txt) the inputs ran
#   --minimise    run nothing: copy into tests/fuzz/corpus few of DIR/corpus that cover more
#   TARGET        a file name in tests/fuzz without .cpp (default: all)
#
# Fails where there is a finding: a crash, an error that no user should see, undefined behaviour, a
# leak, memory beyond twice the input + 64 MiB, or an input that takes longer than that.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() { sed -n '3,20s/^# \{0,1\}//p' tests/fuzz/run.sh; }

seconds=60
input_seconds=10
jobs=1
work=build/fuzz/work
minimise=false
coverage=false
targets=()
while (($#)); do
  case "$1" in
    -h | --help)
      usage
      exit 0
      ;;
    --minimise) minimise=true ;;
    --coverage) coverage=true ;;
    --seconds | --input-seconds | --jobs | --work)
      if (($# < 2)); then
        echo "run.sh: $1 needs a value" >&2
        exit 2
      fi
      case "$1" in
        --seconds) seconds=$2 ;;
        --input-seconds) input_seconds=$2 ;;
        --jobs) jobs=$2 ;;
        --work) work=$2 ;;
      esac
      shift
      ;;
    -*)
      echo "run.sh: unknown option '$1' (known: --seconds, --input-seconds, --jobs, --work, --coverage, --minimise)" >&2
      exit 2
      ;;
    *) targets+=("$1") ;;
  esac
  shift
done

scripts/install_dependencies.sh --fuzz
programs=build/fuzz/tests/fuzz
if ((${#targets[@]} == 0)); then
  for folder in tests/fuzz/corpus/*/; do targets+=("$(basename "$folder")"); done
fi
for target in "${targets[@]}"; do
  if ! grep --quiet "^$target " tests/fuzz/parsers.txt; then
    echo "run.sh: there is no target '$target'" >&2
    exit 2
  fi
done
if $minimise || ((seconds > 0)); then scripts/build.sh fuzz "${targets[@]/#/fuzz_}"; fi
mkdir -p "$work/findings" "$work/logs"

# Files that targets write for an input belong into memory.
scratch=$(mktemp -d -p /dev/shm lockstep_fuzz.XXXXXX 2>/dev/null || mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TMPDIR=$scratch
export ASAN_OPTIONS=quarantine_size_mb=16

if $minimise; then
  # By edges alone: how often one is passed would keep many more inputs.
  for target in "${targets[@]}"; do
    mkdir -p "$work/corpus/$target"
    "$programs/fuzz_$target" -set_cover_merge=1 -use_counters=0 -max_len=4096 \
      "tests/fuzz/corpus/$target" "$work/corpus/$target" \
      >"$work/logs/$target.merge" 2>&1
  done
  exit 0
fi

fuzz_one() {
  local target=$1 log=$work/logs/$1.log options=()
  mkdir -p "$work/corpus/$target"
  [[ -f tests/fuzz/$target.dict ]] && options+=(-dict="tests/fuzz/$target.dict")
  local status=0
  "$programs/fuzz_$target" -max_total_time="$seconds" -max_len=65536 -timeout="$input_seconds" -rss_limit_mb=2048 \
    -malloc_limit_mb=512 -print_final_stats=1 -artifact_prefix="$work/findings/$target-" \
    "${options[@]}" "$work/corpus/$target" "tests/fuzz/corpus/$target" >"$log" 2>&1 || status=$?
  local executions took edges inputs
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)
  took=$(sed -n 's/^Done [0-9]* runs in \([0-9]*\) second.*/\1/p' "$log" | tail -1)
  edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
  inputs=$(find "$work/corpus/$target" -type f | wc -l)
  local finding=-
  ((status == 0)) || finding="exit $status, see $log"
  printf '%-18s %12s %8s %8s %8s  %s\n' \
    "$target" "${executions:--}" "${took:--}" "${edges:--}" "$inputs" "$finding" | tee "$work/logs/$target.row"
  sed -n 's/^COUNTS: /  /p' "$log"  # what the target says at exit
}
export -f fuzz_one
export work programs seconds input_seconds

status=0
if ((seconds > 0)); then
  printf '%-18s %12s %8s %8s %8s  %s\n' target executions seconds edges inputs finding
  rm -f "$work"/logs/*.row
  printf '%s\n' "${targets[@]}" | xargs --max-procs="$jobs" -I{} bash -c 'fuzz_one {}'
  if grep --quiet 'exit [0-9]' "$work"/logs/*.row; then
    echo "run.sh: there are findings in $work/findings" >&2
    status=1
  fi
fi
if $coverage; then
  bash tests/fuzz/coverage.sh "$work" "${targets[@]}" || status=1
fi
exit "$status"
