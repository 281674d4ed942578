#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints which share of the parsers' own files (parsers.txt) the inputs of fuzz targets run: those in
# tests/fuzz/corpus and in WORK/corpus, and the targets' large inputs.
#
#   bash tests/fuzz/coverage.sh WORK TARGET...
#
# A line for each file, and one for each target that has several. What never ran is in
# WORK/coverage/TARGET.txt, line by line. run.sh --coverage calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

work=${1:?usage: tests/fuzz/coverage.sh WORK TARGET...}
shift
# Of the clang that the preset fuzz-coverage compiles with: profiles of others cannot be read.
profdata=llvm-profdata-14
cov=llvm-cov-14
scripts/build.sh fuzz-coverage "${@/#/fuzz_}"
programs=build/fuzz-coverage/tests/fuzz
mkdir -p "$work/coverage"
scratch=$(mktemp -d -p /dev/shm lockstep_fuzz.XXXXXX 2>/dev/null || mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TMPDIR=$scratch

# lines and regions in per cent, of the files of a target
row() {
  local target=$1 name=$2
  shift 2
  "$cov" report "$programs/fuzz_$target" -instr-profile="$work/coverage/$target.profdata" "$@" |
    awk -v target="$target" -v name="$name" '$1 == "TOTAL" {
      printf "%-18s %6d %8s %8s %9s  %s\n", target, $8, $8 - $9, $10, $4, name }'
}

printf '%-18s %6s %8s %8s %9s  %s\n' target lines covered 'lines %' 'regions %' file
status=0
for target in "$@"; do
  read -ra files < <(sed -n "s/^$target  *//p" tests/fuzz/parsers.txt)
  folders=("tests/fuzz/corpus/$target")
  [[ ! -d $work/corpus/$target ]] || folders+=("$work/corpus/$target")
  if ! LLVM_PROFILE_FILE=$scratch/raw "$programs/fuzz_$target" "${folders[@]}" >"$work/logs/$target.replay" 2>&1; then
    echo "coverage.sh: $target: replaying its inputs failed, see $work/logs/$target.replay" >&2
    status=1
    continue
  fi
  "$profdata" merge -sparse "$scratch/raw" -o "$work/coverage/$target.profdata"
  "$cov" show "$programs/fuzz_$target" -instr-profile="$work/coverage/$target.profdata" "${files[@]}" \
    >"$work/coverage/$target.txt"
  for file in "${files[@]}"; do row "$target" "$file" "$file"; done
  ((${#files[@]} == 1)) || row "$target" "(all of them)" "${files[@]}"
done
exit "$status"
