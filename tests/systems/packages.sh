#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes packages on Debian 12 and on Debian 13, and installs them in fresh trees, as their users would.
#
#   bash tests/systems/packages.sh [--root DIR] FOLDER [STEP...]
#
#   --root DIR   where the trees are, as for debian.sh
#   FOLDER       gets the packages, FOLDER/bookworm and FOLDER/trixie, and a log of every step
#   STEP...      of the table below (default: all, in this order)
#
#     make-bookworm, make-trixie   build what is committed here in a tree of its own, make all packages, twice, compare
#     debs-bookworm, debs-trixie   .debs in a bare tree: 1 and 2 ranks, doctor, man, completion, a C++ program
#     archive                      Debian 12's, in Debian 13: without MPI, then with Open MPI 5
#     archive-bookworm             the same with Open MPI 4
#     wheel                        Debian 12's, by pip in Debian 13, as an ordinary user
#     containers                   Debian 12's Containerfile, by buildah in Debian 12; lockstep.def is not built
#
# Needs root, debootstrap and the network. Prints what it checked; exit code 1 at the first step that fails.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

root=()
while [[ ${1:-} == -* ]]; do
  case "$1" in
    --root) root=(--root "${2:?--root needs a folder}") && shift 2 ;;
    -h | --help) sed -n '3,20s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit ;;
    *) echo "packages.sh: unknown option '$1' (known: --root)" >&2 && exit 2 ;;
  esac
done
(($#)) || { echo "packages.sh: expected a folder for the packages" >&2 && exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
(($#)) || set -- make-bookworm debs-bookworm make-trixie debs-trixie archive archive-bookworm wheel containers

in_tree() { # SUITE COMMAND...: in a tree that holds git alone
  bash "$source/tests/systems/debian.sh" "${root[@]}" --suite "$1" --bind "$folder" "${@:2}"
}

run_step() {
  local check=tests/systems/packages_in_tree.sh
  case "$1" in
    make-bookworm | make-trixie) in_tree "${1#make-}" bash $check make "$folder/${1#make-}" ;;
    debs-bookworm | debs-trixie) in_tree "${1#debs-}" bash $check debs "$folder/${1#debs-}" ;;
    archive) in_tree trixie bash $check archive "$folder/bookworm" ;;
    archive-bookworm) in_tree bookworm bash $check archive "$folder/bookworm" ;;
    containers) in_tree bookworm bash $check containers "$folder/bookworm" ;;
    wheel) in_tree trixie bash $check wheel "$folder/bookworm" ;;
    *) echo "packages.sh: unknown step '$1'" >&2 && return 2 ;;
  esac
}

for step; do
  begin=$SECONDS
  code=0
  run_step "$step" >"$folder/$step.log" 2>&1 || code=$?
  echo "$step: exit code $code, $((SECONDS - begin)) s"
  grep '^ok: ' "$folder/$step.log" || true
  if ((code)); then
    tail -n 20 "$folder/$step.log" >&2
    exit 1
  fi
done
