#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh clone to a trained network: installs what is missing, builds Lockstep, and trains a
# small convolutional network on the embedded digits with two ranks to at least 98% accuracy.
#
#   bash examples/quickstart.sh [flags of lockstep train, which win over examples/quickstart.toml]
#
# QUICKSTART_OUT names the output folder (default: runs/quickstart, replaced on each call).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

target_percent=98
out=${QUICKSTART_OUT:-runs/quickstart}

for argument in "$@"; do
  case $argument in
    --out | --out=*)
      echo "quickstart: set QUICKSTART_OUT in place of --out" >&2
      exit 2
      ;;
  esac
done

scripts/install_dependencies.sh
scripts/build.sh release lockstep

build/release/lockstep train --config examples/quickstart.toml "$@" --out "$out" --force

python3 - "$out/summary.json" "$target_percent" <<'PYTHON'
import json
import sys

path, target = sys.argv[1], float(sys.argv[2])
with open(path) as file:
    summary = json.load(file)
accuracy, seconds = 100 * (summary["val_accuracy"] or 0), summary["wall_s"]
print(f"quickstart: {summary['ranks']} ranks reached {accuracy:.2f}% validation accuracy "
      f"in {seconds:.1f} s of training")
if accuracy < target:
    sys.exit(f"quickstart: that is below the {target:.0f}% it should reach")
PYTHON
