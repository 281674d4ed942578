#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks what compilers do not: the direction of the includes, the size of the files, and that the
# README and docs/ speak only of flags and variables that exist.
#
#   tests/lint/check_includes.sh [ROOT]     (default: this tree)
#
# Prints one line a finding; exit code 1 where there is one. Sizes from 400 lines only warn.
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"

findings=0
report() {
  echo "$1"
  findings=$((findings + 1))
}

existing() {  # the arguments that are there, so that a tree may lack a folder
  local path
  for path in "$@"; do [[ -e $path ]] && echo "$path"; done
  return 0
}

# forbid WHY HEADERS FOLDER... [-- EXCEPTION]: no file below FOLDER, other than those whose path
# matches EXCEPTION, includes a header whose name starts as the regular expression HEADERS says.
forbid() {
  local why=$1 headers=$2 exception='^$' folders=()
  shift 2
  while (($#)); do
    if [[ $1 == -- ]]; then
      exception=$2
      break
    fi
    folders+=("$1")
    shift
  done
  mapfile -t folders < <(existing "${folders[@]}")
  ((${#folders[@]})) || return 0
  local hit
  while IFS= read -r hit; do
    [[ ${hit%%:*} =~ $exception ]] || report "$hit  [$why]"
  done < <(grep --recursive --line-number --extended-regexp \
    --include='*.h' --include='*.cpp' --include='*.inc' --include='*.cu' --include='*.cuh' \
    "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]($headers)" "${folders[@]}" || true)
}

mpi='mpi\.h|mpi-ext\.h|mpi/'
onednn='dnnl|oneapi/dnnl'
cuda='cuda|cublas|cudnn|curand|cusparse|nvtx|nvml|cupti|thrust/|cub/'
nccl='nccl'

forbid "a public header includes lockstep/ and the standard library alone" \
  "core/|kernels/|parallel/|launcher/|examples/|fmt/|nlohmann/" include
forbid "core knows no device library and no MPI" "$mpi|$onednn|$cuda|$nccl" core
forbid "core depends on nothing above it" "kernels/|parallel/|launcher/|examples/" core
forbid "kernels depend on core alone" "parallel/|launcher/|examples/" kernels
forbid "parallel knows no backend and no program" "kernels/|launcher/|examples/" parallel \
  -- '^parallel/(comm/nccl|session)/'
forbid "oneDNN stays in kernels/cpu/onednn" "$onednn" \
  kernels parallel launcher examples include -- '^kernels/cpu/onednn/'
forbid "CUDA stays in kernels/cuda and the NCCL communicator" "$cuda|$nccl" \
  kernels parallel launcher examples include -- '^(kernels/cuda|parallel/comm/nccl)/'
forbid "MPI stays in parallel" "$mpi" kernels launcher examples include
forbid "nothing but tests includes tests" "tests/" \
  core kernels parallel launcher examples include

# Files that grew past what one reads in a sitting.
while IFS= read -r -d '' file; do
  lines=$(wc -l <"$file")
  if ((lines > 800)); then
    report "$file: $lines lines  [800 at most: split it]"
  elif ((lines > 400)); then
    echo "$file: $lines lines  [warning: aim for 200]"
  fi
done < <(find . \( -path ./build -o -path ./.git -o -path ./.venv -o -path ./runs \) -prune -o \
  -type f -regex '.*\.\(h\|cpp\|inc\|cu\|cuh\|py\|sh\|cmake\)' -print0)

# A flag or variable of README and docs/ must be spelled out in a source or script.
mapfile -t documents < <(find README.md docs -name '*.md' 2>/dev/null | sort)
if ((${#documents[@]})); then
  mapfile -t sources < <(existing include core kernels parallel launcher examples scripts cmake tests .ci \
    CMakeLists.txt)
  while IFS=: read -r document name; do
    # Settings may be registered by their bare name: "global-batch".
    grep --recursive --quiet --extended-regexp --exclude-dir=lint \
      -e "(^|[^A-Za-z0-9_-])$name(\$|[^A-Za-z0-9_-])" -e "\"${name#--}\"" "${sources[@]}" ||
      report "$document: $name  [no source or script knows it]"
  done < <(grep --only-matching --with-filename --extended-regexp \
    '(^|[^[:alnum:]_-])(--[a-z][a-z0-9-]*|LOCKSTEP_[A-Z_]+)' "${documents[@]}" |
    sed --regexp-extended 's/:[^-L]*/:/' | sort --unique)
fi

if ((findings)); then
  echo "check_includes.sh: $findings findings"
  exit 1
fi
