#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains four models in fp32 and bf16 on 1 to 4 ranks each and compares their weights_sha256: a table, and exit code 1
# where two numbers of ranks end with different weights. On another Debian, with what chosen_tests.sh built there:
#
#   bash tests/systems/debian.sh --keep bash tests/systems/equal_bits.sh [LOCKSTEP [RANKS...]]
#
#   LOCKSTEP   the program (default: build/release/lockstep)
#   RANKS...   numbers of ranks (default: 1 2 3 4)
#
# LAUNCH is the command that starts ranks (default: mpirun of Open MPI; the number of ranks follows).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source scripts/environment.sh
program=${1:-build/release/lockstep}
shift || true
(($#)) || set -- 1 2 3 4
# Ranks may outnumber cores and are not bound to one: Open MPI 4 and 5 have different names for that.
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
read -ra launch <<<"${LAUNCH:-mpirun --oversubscribe -np}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
declare -A models=(
  [mlp]="--model mlp --data glyphs"
  [convnet]="--model convnet --data glyphs"
  [resnet20]="--model resnet20 --data synthetic:32x32x3:10"
  [gpt]="--model gpt --layers 2 --heads 2 --width 64 --context 32 --data text:docs/guide.md"
)
code=0
all=()
for model in gpt resnet20 convnet mlp; do
  for precision in fp32 bf16; do
    digests=()
    for ranks; do
      read -ra flags <<<"${models[$model]}"
      "${launch[@]}" "$ranks" "$program" train --device cpu "${flags[@]}" --precision "$precision" --steps 10 \
        --global-batch 32 --micro-batch 4 --out "$work/$model.$precision.$ranks" >"$work/log" 2>&1 ||
        { cat "$work/log" >&2 && exit 1; }
      digests+=("$(python3 - "$work/$model.$precision.$ranks/summary.json" "$ranks" <<'CHECK'
import json, sys
summary = json.load(open(sys.argv[1]))
assert summary["ranks"] == int(sys.argv[2]), summary["ranks"]
assert len(summary["weights_sha256"]) == 64
print(summary["weights_sha256"])
CHECK
      )")
    done
    distinct=$(printf '%s\n' "${digests[@]}" | sort -u | wc -l)
    verdict=equal
    all+=("${digests[0]}")
    ((distinct == 1)) || verdict=DIFFERENT code=1
    echo "$model $precision, $* ranks: $verdict ${digests[0]:0:16}"
  done
done
# Eight different trainings end with eight different weights.
(($(printf '%s\n' "${all[@]}" | sort -u | wc -l) == ${#all[@]})) ||
  { echo "equal_bits.sh: two different trainings ended with equal weights" >&2 && exit 1; }
exit $code
