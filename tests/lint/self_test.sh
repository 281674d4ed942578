#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Plants one violation of each rule into a small tree and expects check_includes.sh to find it, and
# to find nothing before.
set -euo pipefail
check=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/check_includes.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

mkdir -p "$tree"/{core/ops,kernels/cpu,parallel/comm,launcher,include}
echo '#include "core/ops/activations/relu.h"' >"$tree/kernels/cpu/relu.cpp"
echo '#include <mpi.h>' >"$tree/parallel/comm/mpi_communicator.cpp"
echo 'add_flag("--seed"); // LOCKSTEP_SYNC' >"$tree/launcher/train.cpp"
echo 'use `--seed` with LOCKSTEP_SYNC=1' >"$tree/README.md"
bash "$check" "$tree" || { echo "self_test.sh: a clean tree is not clean" >&2; exit 1; }

expect_finding() {  # NAME FILE LINE: the line in that file is a finding that names NAME
  local before
  before=$(cat "$tree/$2" 2>/dev/null || true)
  echo "$3" >>"$tree/$2"
  local output
  if output=$(bash "$check" "$tree") || [[ $output != *"$1"* ]]; then
    echo "self_test.sh: not found: '$3' in $2" >&2
    exit 1
  fi
  if [[ $before ]]; then echo "$before" >"$tree/$2"; else rm "$tree/$2"; fi
}

expect_finding include/a.h include/a.h '#include "core/ops/activations/relu.h"'
expect_finding core/ops/a.h core/ops/a.h '#include <mpi.h>'
expect_finding core/ops/a.cpp core/ops/a.cpp '#include "oneapi/dnnl/dnnl.hpp"'
expect_finding core/ops/a.cpp core/ops/a.cpp '  # include <cuda_runtime.h>'
expect_finding core/ops/a.cpp core/ops/a.cpp '#include <nccl.h>'
expect_finding core/ops/a.cpp core/ops/a.cpp '#include "parallel/batch/schedule.h"'
expect_finding kernels/cpu/a.cpp kernels/cpu/a.cpp '#include "parallel/batch/schedule.h"'
expect_finding kernels/a.cpp kernels/a.cpp '#include <dnnl.hpp>'
expect_finding kernels/cpu/a.cpp kernels/cpu/a.cpp '#include <mpi.h>'
expect_finding parallel/a.cpp parallel/a.cpp '#include "kernels/cpu/cpu_backend.h"'
expect_finding launcher/a.cpp launcher/a.cpp '#include <mpi.h>'
expect_finding launcher/a.cpp launcher/a.cpp '#include "tests/support/null_backend.h"'
expect_finding core/ops/a.cpp core/ops/a.cpp "$(yes '//' | sed 801q)"
expect_finding "--sede " README.md 'use `--sede`'
expect_finding "--se " README.md 'use `--se`'
mkdir "$tree/docs"
expect_finding "--sede " docs/guide.md 'use `--sede`'
expect_finding LOCKSTEP_SINC README.md 'LOCKSTEP_SINC=1'
