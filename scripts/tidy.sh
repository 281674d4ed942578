#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs clang-tidy with the settings of .clang-tidy; a finding is an error.
#
#   scripts/tidy.sh            the .cpp files that differ from the branch main or are uncommitted
#   scripts/tidy.sh --all      every .cpp file of the build
#   scripts/tidy.sh FILE...    these
#
# Tests are skipped: GoogleTest's macros would be most of its findings.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
scripts/install_dependencies.sh --lint

folder=build/debug  # release compiles files in groups
compilation=$folder/compile_commands.json
[[ -f $compilation ]] || cmake --preset debug >/dev/null
protoc --proto_path=launcher/output --cpp_out="$folder/launcher" launcher/output/tensorboard.proto  # included by a file
mapfile -t built < <(sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$compilation" |
  sed "s|^$PWD/||" | grep --invert-match --extended-regexp '^(build|tests)/')

if [[ ${1:-} == --all ]]; then
  wanted=$(printf '%s\n' "${built[@]}")
elif (($#)); then
  wanted=$(printf '%s\n' "$@")
else
  wanted=$({
    git diff --name-only --diff-filter=d main 2>/dev/null || true
    git ls-files --others --exclude-standard
  })
fi
# Only what is compiled has flags to be read with.
mapfile -t files < <(printf '%s\n' "${built[@]}" | grep --line-regexp --fixed-strings "$wanted" || true)
if ((${#files[@]} == 0)); then
  echo "tidy.sh: no file to look at"
  exit 0
fi
# GCC's own warning switches are unknown to clang.
if ! printf '%s\n' "${files[@]}" | xargs --max-args=1 --max-procs="$(nproc)" \
  clang-tidy-14 -p "$folder" --quiet --extra-arg=-Wno-unknown-warning-option \
  --extra-arg=-Wno-unused-command-line-argument 2> >(grep --invert-match 'warnings\? generated' >&2); then
  echo "tidy.sh: findings above" >&2
  exit 1
fi
echo "tidy.sh: ${#files[@]} files are clean"
