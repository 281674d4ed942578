#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that needs a GPU: builds for the devices of this machine, runs the tests with the label
# gpu (operators against a double-precision reference, models against PyTorch's values), training on
# one rank against four that share the GPU, to the bit, what the watch of the GPU says of a training,
# the rates of the operators and PyTorch's in the same shapes, and the operator tests again under
# compute-sanitizer. Writes one file: a table of these stages, then those of the rates.
#
#   tests/gpu/run.sh [--build DIR] [--results FILE] [--quick]
#
#   --build DIR      where to build (default: build/gpu)
#   --results FILE   where the table goes (default: BUILD/RESULTS.md)
#   --quick          without compute-sanitizer
#
# Needs nvcc, CMake, ninja and a C++ compiler. GPU_TEST_PREFIX names a folder with the libraries that
# the machine lacks (a root file system's usr: include, lib, bin). PYTHON is the one that has PyTorch
# (default: python3); without it PyTorch's rates are not measured. Exit code 3 without a GPU; 1 where
# anything failed, with the file written all the same.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=build/gpu results= quick=false
while (($#)); do
  case $1 in
    --build) build=$2 && shift 2 ;;
    --results) results=$2 && shift 2 ;;
    --quick) quick=true && shift ;;
    -h | --help) sed -n '3,18s/^# \{0,1\}//p' "$0" && exit 0 ;;
    *) echo "run.sh: unknown option '$1' (known: --build, --results, --quick)" >&2 && exit 2 ;;
  esac
done
results=${results:-$build/RESULTS.md}

if ! device=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>&1); then
  echo "run.sh: no GPU answers here: $device" >&2
  exit 3
fi
# Before the libraries below: PyTorch brings its own.
python=${PYTHON:-$(command -v python3 || echo python3)} own_libraries=${LD_LIBRARY_PATH:-}
if [[ -n ${GPU_TEST_PREFIX:-} ]]; then
  export CMAKE_PREFIX_PATH=$GPU_TEST_PREFIX${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
  export PATH=$GPU_TEST_PREFIX/bin:$PATH
  export LD_LIBRARY_PATH=$GPU_TEST_PREFIX/lib:$GPU_TEST_PREFIX/lib/x86_64-linux-gnu:${LD_LIBRARY_PATH:-}
fi
command -v nvcc >/dev/null || export PATH=$PATH:/usr/local/cuda/bin
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)

failed=0
rows=()
# stage NAME COMMAND...: one row of the table; what it prints goes to BUILD/NAME.log.
stage() {
  local name=$1 log=$build/$1.log start=$SECONDS verdict=passed code=0
  shift
  echo "--- $name"
  "$@" >"$log" 2>&1 || code=$?
  if [[ $name == torch-rates && $code == 3 ]]; then
    verdict="not measured"
  elif ((code != 0)); then
    verdict="FAILED ($code)" failed=1
    tail -n 30 "$log"
  elif grep --quiet --extended-regexp 'Skipped|SKIPPED|^skipped: ' "$log"; then
    verdict="FAILED (skipped tests)" failed=1  # a skipped check has shown nothing
  fi
  local count counts='tests passed|(ERROR|RACECHECK) SUMMARY|^Memory-bound|^Slower than|^torch_rates: not measured'
  count=$(grep -E "$counts" "$log" | tail -n 1 || true)
  rows+=("| $name | $verdict | ${count:-} | $((SECONDS - start)) |")
}

# train OUT FLAG...: ten steps.
train() {
  local out=$1
  shift
  rm -rf "$out"
  "$build/lockstep" train --out "$out" --steps 10 --eval-every 0 --log-every 1 --global-batch 64 \
    --micro-batch 16 --checkpoint-every 0 "$@"
}

# same_bits: four micro-batches on one rank, and one on each of four ranks that share the GPU.
same_bits() {
  train "$build/one" --device cuda --ranks 1 --data glyphs --model convnet --batch-norm group:16
  train "$build/four" --device cuda --ranks 4 --data glyphs --model convnet --batch-norm group:16
  cmp "$build/one/model.safetensors" "$build/four/model.safetensors"
}

# gpu_use: what the watch says of some seconds of training is there, and can be true.
gpu_use() {
  rm -rf "$build/use"
  "$build/lockstep" train --out "$build/use" --device cuda --ranks 1 --steps 4000 --eval-every 0 \
    --log-every 500 --data synthetic:32x32x3 --model resnet18 --global-batch 128 --checkpoint-every 0
  python3 - "$build/use" <<'END'
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
gpu, = json.loads((folder / "summary.json").read_text())["gpus"]
print(json.dumps(gpu, indent=2))
assert gpu["trouble"] is None and gpu["samples"] >= 2, "the GPU was not watched"
for name, most in (("busy", 1), ("bus_busy", 1), ("memory_bytes", gpu["memory_total_bytes"]),
                   ("power_w", 1.2 * gpu["power_limit_w"]), ("clock_mhz", gpu["clock_limit_mhz"]),
                   ("temperature_c", 110)):
    assert 0 < gpu[name]["most"] <= most, f"{name}: {gpu[name]}"
last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
assert last["gpu_busy"] is not None, last
END
}

torch_rates() {
  LD_LIBRARY_PATH=$own_libraries "$python" -B tests/gpu/torch_rates.py "$build/rates.json" \
    --json "$build/torch-rates.json"
}

# sanitize TOOL: the operator tests, each kernel once.
sanitize() {
  "$sanitizer" --tool "$1" --error-exitcode 1 "$build/tests/ops/cuda_ops_test_gpu" \
    --gtest_filter='Cuda*'
}

mkdir -p "$build"
stage configure cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_FLAGS_RELEASE=-O2 -DLOCKSTEP_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native
stage build cmake --build "$build"
stage tests ctest --test-dir "$build" --label-regex gpu --output-on-failure --no-tests=error
stage same-bits same_bits
stage gpu-use gpu_use
rm -f "$build/rates.json"
stage rates "$build/tests/gpu/operator_rates" --json "$build/rates.json"
stage torch-rates torch_rates
if ! $quick; then
  for tool in memcheck racecheck initcheck; do stage "$tool" sanitize "$tool"; done
fi

{
  echo "## $(date -u +%Y-%m-%d), $device, commit $(git describe --always --dirty)"
  echo
  echo "| stage | verdict | what it counted | seconds |"
  echo "|---|---|---|---|"
  printf '%s\n' "${rows[@]}"
  printf '\n### Rates of the operators\n\n'
  cat "$build/rates.log"
  printf '\n### The same products by PyTorch\n\n'
  cat "$build/torch-rates.log"
} >"$results"
cat "$results"
exit $failed
