#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds Lockstep, plays the twenty faults and prints the table; options as play_faults.py has them.
#
#   bash tests/fault/run.sh [--ranks 2,4] [--seeds N] [--faults 1,2,5] [--quick] [--log FILE]
set -euo pipefail
called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source scripts/environment.sh
scripts/install_dependencies.sh
cmake --preset release >/dev/null
cmake --build --preset release --target lockstep failing_calls
build=$PWD/build/release tests=$PWD/tests/fault
cd "$called_from"
exec python3 -B "$tests/play_faults.py" "$build/lockstep" "$build/tests/fault/libfailing_calls.so" "$@"
