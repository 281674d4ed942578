#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of a GoogleTest program that mostly wait in several processes at the same time.
#
#   side_by_side.sh PROCESSES PROGRAM [ARGUMENT...]
#
# Lines begin with the process's number. Exit code 1 where one fails, or none has run a test.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
declare -a running
for ((i = 0; i < $1; ++i)); do
  GTEST_TOTAL_SHARDS=$1 GTEST_SHARD_INDEX=$i "${@:2}" 2>&1 | tee "$folder/$i" | sed -u "s/^/$i: /" &
  running[i]=$!
done
code=0
for process in "${running[@]}"; do wait "$process" || code=1; done
grep -qE '^\[  PASSED  \] [1-9]' "$folder"/* || code=1
exit $code
