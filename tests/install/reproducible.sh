#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the last commit twice, in folders of different lengths and depths, at different times of day and in
# different time zones, installs both, and compares all files. Exit code 1, naming the files, where some differ.
#
#   bash tests/install/reproducible.sh [--work DIR] [--cache] [--jobs N] [CMAKE_OPTION...]
#
#   --work DIR      goes on with what an earlier call built there, and keeps it (default: a folder of its own,
#                   removed at the end)
#   --cache         lets ccache answer; without it, both compile every file
#   --jobs N        compilers at a time (default: as many as cores)
#   CMAKE_OPTION    as -DLOCKSTEP_MPI=OFF, after the preset release without CUDA
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

work=
cache=
jobs=$(nproc)
options=()
while (($#)); do
  case "$1" in
    -h | --help)
      sed -n '3,12s/^# \{0,1\}//p' "$root/tests/install/reproducible.sh"
      exit 0
      ;;
    --work) work=${2:?--work needs a folder} && shift 2 ;;
    --jobs) jobs=${2:?--jobs needs a number} && shift 2 ;;
    --cache) cache=yes && shift ;;
    *) options+=("$1") && shift ;;
  esac
done
[[ $cache ]] || export CCACHE_DISABLE=1
if [[ -z $work ]]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
mkdir -p "$work"
work=$(cd "$work" && pwd)
commit=$(git -C "$root" rev-parse HEAD)
[[ -z $(git -C "$root" status --porcelain) ]] || echo "reproducible.sh: what is not committed is not built" >&2

# build NAME SOURCE BUILD: installs the commit into $work/NAME.
build() {
  local name=$1 source=$2 build=$3
  [[ -d $source ]] || git clone --quiet --shared --no-checkout "$root" "$source"
  git -C "$source" checkout --quiet --detach "$commit"
  (
    cd "$source"
    cmake --preset release -B "$build" -DLOCKSTEP_CUDA=OFF -DLOCKSTEP_TESTS=OFF "${options[@]}" >"$work/$name.log"
  ) || { cat "$work/$name.log" >&2 && return 1; }
  cmake --build "$build" --target lockstep --parallel "$jobs"
  rm -rf "${work:?}/$name"
  cmake --install "$build" --prefix "$work/$name" >>"$work/$name.log"
  (cd "$work/$name" && find . \( -type f -o -type l \) -print0 | sort --zero-terminated |
    xargs --null sha256sum) >"$work/$name.sha256"
}

(export TZ=UTC LC_ALL=C && build one "$work/a" "$work/a/build/release")
(export TZ=Asia/Tokyo && umask 077 && build two "$work/another_folder/deeper/than_the_first" "$work/elsewhere/built")

if differing=$(diff "$work/one.sha256" "$work/two.sha256"); then
  echo "reproducible.sh: $(wc -l <"$work/one.sha256") files of $commit are equal"
else
  echo "reproducible.sh: of $commit these files differ, or only one build has them:" >&2
  sed -n 's/^[<>] [0-9a-f]*  /  /p' <<<"$differing" | sort --unique >&2
  exit 1
fi
