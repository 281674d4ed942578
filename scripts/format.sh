#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formats every C++ and CUDA file as .clang-format says; --check only says which are not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/install_dependencies.sh --lint

mode=(-i)
if [[ ${1:-} == --check ]]; then mode=(--dry-run -Werror --ferror-limit=3); fi
find core kernels parallel launcher include examples tests \
  -type f -regex '.*\.\(h\|cpp\|cu\|cuh\)' -print0 |
  xargs --null clang-format-14 "${mode[@]}"
