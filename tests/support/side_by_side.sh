#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of a GoogleTest program that mostly wait in several processes at the same time.
#
#   side_by_side.sh PROCESSES PROGRAM [ARGUMENT...]
#
# Prints what each process has printed, one after the other; exit code 1 where one fails.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
declare -a running
for ((i = 0; i < $1; ++i)); do
  GTEST_TOTAL_SHARDS=$1 GTEST_SHARD_INDEX=$i "${@:2}" >"$folder/$i" 2>&1 &
  running[i]=$!
done
code=0
for ((i = 0; i < $1; ++i)); do
  wait "${running[i]}" || code=1
  cat "$folder/$i"
done
exit $code
