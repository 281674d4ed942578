#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that needs a GPU. Builds for the devices of this machine and runs, as stages:
#
#   configure, build
#   tests            those with the label gpu (operators against a double-precision reference,
#                    on inputs of a fresh seed, which it prints; models against PyTorch's values)
#   same-bits        training on one rank against four that share the GPU, to the bit: convnet in
#                    fp32, gpt in bf16
#   graph-bits       ten steps of four models, and of one whose batch norm two ranks share, with CUDA
#                    graphs and with LOCKSTEP_GRAPH=0, to the bit
#   nccl-shared      2 and 4 ranks that share the GPU over NCCL, MPI and one rank, to the bit
#   one-launch       what the host asks of the GPU in a steady step, counted by CUPTI: one launch
#   gpu-use          what the watch of the GPU says of a training
#   memory           what the GPU reports in use against what lockstep plan says, 2% apart at most
#   rates            the rates of the operators; torch-rates: PyTorch's in the same shapes
#   exchange-cost    the reproducible exchange against --reduction fast, on one rank and on two
#   compare-CASE     training against PyTorch (tests/benchmarks/compare_pytorch.py --device cuda):
#                    iris, resnet18, resnet18-batch-512, nanogpt-char, resnet50, gpt2-124m
#   memcheck, racecheck   the operator tests again under compute-sanitizer, own kernels alone
#   initcheck        the same, all kernels, in memory that nobody has set to zero
#
# Writes one file: a table of these stages, then those of the rates and comparisons.
#
#   tests/gpu/run.sh [--build DIR] [--results FILE] [--only NAME,...] [--quick] [--compare FLAGS]
#
#   --build DIR      where to build (default: build/gpu)
#   --results FILE   where the table goes (default: BUILD/RESULTS.md)
#   --only NAME,...  these stages alone, or all whose names begin so; without build, what was built
#                    before is run
#   --quick          without compute-sanitizer; comparisons once, with few modes and steps
#   --compare FLAGS  more of compare_pytorch.py, as one word: '--repetitions 1 --modes compiled'
#
# Needs nvcc, CMake, ninja and a C++ compiler. GPU_TEST_PREFIX names a folder with the libraries
# that the machine lacks (a root file system's usr: include, lib, bin); without MPI it builds for one
# rank, and the stages that start several fail; without oneDNN the CPU side is plain loops. PYTHON is the one that has
# PyTorch (default: python3); without it PyTorch's side is not measured. LOCKSTEP_TEST_DATA is the
# folder with tinyshakespeare.txt, without which compare-nanogpt-char fails. LOCKSTEP_TEST_SEED is
# the seed of the stage tests, where it must not be a fresh one. Exit code 3 without a GPU; 1 where
# anything failed, with the file written all the same. "does not work", where NCCL refuses ranks that
# share a GPU, is no failure, and no success.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=build/gpu results='' quick=false only='' compare_flags=()
while (($#)); do
  case $1 in
    --build) build=$2 && shift 2 ;;
    --results) results=$2 && shift 2 ;;
    --only) only=$2 && shift 2 ;;
    --quick) quick=true && shift ;;
    --compare) read -ra compare_flags <<<"$2" && shift 2 ;;
    -h | --help) sed -n '3,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" && exit 0 ;;
    *)
      echo "run.sh: unknown option '$1' (known: --build, --results, --only, --quick, --compare)" >&2
      exit 2
      ;;
  esac
done
results=${results:-$build/RESULTS.md}

comparisons=(iris resnet18 resnet18-batch-512 nanogpt-char resnet50 gpt2-124m)
stages=(configure build tests same-bits graph-bits nccl-shared one-launch gpu-use memory rates
  torch-rates exchange-cost "${comparisons[@]/#/compare-}" memcheck racecheck initcheck)

# matches NAME: whether --only names it, or the beginning of it.
matches() {
  local wanted
  [[ -z $only ]] && return 0
  for wanted in ${only//,/ }; do [[ $1 == "$wanted"* ]] && return 0; done
  return 1
}
for wanted in ${only//,/ }; do
  if ! printf '%s\n' "${stages[@]}" | grep --quiet "^$wanted"; then
    echo "run.sh: no stage '$wanted'; stages: ${stages[*]}" >&2
    exit 2
  fi
done

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
  matches "$name" || return 0
  echo "--- $name"
  "$@" >"$log" 2>&1 || code=$?
  if [[ $name == torch-rates && $code == 3 ]]; then
    verdict="not measured"
  elif [[ $name == nccl-shared && $code == 4 ]]; then
    verdict="does not work"
    tail -n 5 "$log"
  elif ((code != 0)); then
    verdict="FAILED ($code)" failed=1
    tail -n 30 "$log"
  elif grep --quiet --extended-regexp 'Skipped|SKIPPED|^skipped: ' "$log"; then
    verdict="FAILED (skipped tests)" failed=1  # a skipped check has shown nothing
  elif [[ $name == compare-* || $name == exchange-cost ]]; then
    verdict=ran  # the table says what was met
  fi
  local count counts='tests passed|(ERROR|RACECHECK) SUMMARY|^Memory-bound|^Slower than'
  counts+='|^Within 2%|^torch_rates: not measured|^does not work: |^One launch: |^the same bits: |^cases met: '
  count=$(grep -E "$counts" "$log" | tail -n 1 || true)
  rows+=("| $name | $verdict | ${count:-} | $((SECONDS - start)) |")
}

# train OUT FLAG...: ten steps, none of which is logged: those would not be captured.
train() {
  local out=$1
  shift
  rm -rf "$out"
  timeout 200 "$build/lockstep" train --out "$out" --steps 10 --eval-every 0 --log-every 0 \
    --global-batch 64 --micro-batch 16 --checkpoint-every 0 --device cuda "$@"
}

# replays OUT: whether steps of that run were replayed.
replays() {
  python3 -c 'import json, sys
use = json.load(open(sys.argv[1] + "/summary.json"))["graph_use"]
sys.exit(None if use["replays"] else "nothing was replayed: " + use["why_not"])' "$1"
}

convnet=(--data glyphs --model convnet --batch-norm group:16)

# operator_tests: each time on other inputs than the last time.
operator_tests() {
  export LOCKSTEP_TEST_SEED=${LOCKSTEP_TEST_SEED:-$((RANDOM << 15 | RANDOM))}
  echo "LOCKSTEP_TEST_SEED=$LOCKSTEP_TEST_SEED"
  ctest --test-dir "$build" --label-regex gpu --output-on-failure --no-tests=error
}

# same_bits: four micro-batches on one rank, and one on each of four ranks that share the GPU.
same_bits() {
  cat README.md docs/*.md >"$build/text.txt"
  local compared=0 model gpt=(--data "text:$build/text.txt" --model gpt --layers 2 --heads 2
    --width 64 --context 64 --precision bf16 --optimizer adamw --clip-norm 1)
  for model in convnet gpt; do
    local -n flags=$model
    train "$build/one" --ranks 1 "${flags[@]}" && train "$build/four" --ranks 4 "${flags[@]}" &&
      cmp "$build/one/model.safetensors" "$build/four/model.safetensors" || return 1
    compared=$((compared + 1))
  done
  echo "the same bits: $compared of 2"
}

# same_with_graphs FLAG...: what a graph does again has the bits of what the host asks for.
same_with_graphs() {
  train "$build/graph" "$@" && replays "$build/graph" &&
    LOCKSTEP_GRAPH=0 train "$build/no-graph" "$@" &&
    cmp "$build/graph/model.safetensors" "$build/no-graph/model.safetensors"
}

# graph_bits: dropout, AdamW and a schedule, which change from step to step, are in it. Batch norm
# over ranks that share the GPU cuts graphs at its statistics.
graph_bits() {
  local name precision compared=0 cases=8 flags
  local adamw='--optimizer adamw --lr-schedule cosine --warmup-steps 3'
  cat README.md docs/*.md >"$build/text.txt"
  for name in mlp convnet resnet18 gpt; do
    case $name in
      mlp) flags="--data glyphs --model mlp --hidden 64,32 --dropout 0.1 $adamw" ;;
      convnet) flags="--data glyphs --model convnet --momentum 0.9 --dropout 0.1" ;;
      resnet18) flags="--data synthetic:32x32x3:10 --model resnet18 --stem cifar --momentum 0.9" ;;
      gpt) flags="--data text:$build/text.txt --model gpt --layers 2 --heads 2 --width 64
             --context 64 --dropout 0.1 --clip-norm 1 $adamw" ;;
    esac
    for precision in fp32 bf16; do
      echo "$name, $precision"
      # shellcheck disable=SC2086
      same_with_graphs --ranks 1 --precision $precision $flags || return 1
      compared=$((compared + 1))
    done
  done
  if [[ $mpi == ON ]]; then
    cases=9
    echo "convnet, batch norm over two ranks"
    same_with_graphs --ranks 2 --data glyphs --model convnet --batch-norm group:32 || return 1
    compared=$((compared + 1))
  fi
  echo "the same bits: $compared of $cases"
}

# refusal FOLDER LOG: what NCCL said, in its own files and the run's output.
refusal() {
  { grep --no-filename --only-matching 'NCCL WARN .*' "$1"/* ||
    grep --ignore-case --extended-regexp 'error.*nccl|nccl.*(error|invalid|fail|refuse)' "$2"; } |
    head -n 1
}

# nccl_shared: ranks that share the one GPU over NCCL, each with a host id of its own. What NCCL
# says of itself goes to files, which show whether it was used at all.
nccl_shared() {
  local ranks folder why code
  train "$build/nccl-one" --ranks 1 "${convnet[@]}" || return 1
  for ranks in 2 4; do
    LOCKSTEP_NCCL=off train "$build/nccl-off" --ranks $ranks "${convnet[@]}" &&
      cmp "$build/nccl-one/model.safetensors" "$build/nccl-off/model.safetensors" || return 1
    folder=$PWD/$build/nccl-says-$ranks
    [[ $build != /* ]] || folder=$build/nccl-says-$ranks
    rm -rf "$folder" && mkdir -p "$folder"
    code=0
    LOCKSTEP_NCCL=shared NCCL_SOCKET_IFNAME=lo NCCL_DEBUG=INFO NCCL_DEBUG_FILE="$folder/%p" train "$build/nccl" \
      --ranks $ranks "${convnet[@]}" >"$folder.log" 2>&1 || code=$?
    cat "$folder.log"
    if ((code)); then
      why=$(refusal "$folder" "$folder.log")
      [[ -n $why && $code != 124 ]] || return $code  # not what NCCL said, or it hangs
      echo "does not work: $ranks ranks: ${why//|//}"
      return 4
    fi
    if ! grep --quiet --extended-regexp "nranks $ranks .*Init COMPLETE" "$folder"/*; then
      why=$(refusal "$folder" "$folder.log")
      why=${why:-NCCL was not asked for a communicator of $ranks ranks}
      echo "does not work: $ranks ranks: ${why//|//}"
      return 4
    fi
    cmp "$build/nccl-one/model.safetensors" "$build/nccl/model.safetensors" || return 1
    replays "$build/nccl" || return 1
    echo "the same bits: $ranks ranks over NCCL, over MPI, and one rank"
  done
}

# one_launch: counts calls with a library of our own, as Nsight Systems may not be there.
one_launch() {
  local cuda cupti='' folder
  cuda=$(dirname "$(dirname "$(command -v nvcc)")")
  ${CC:-cc} -std=c11 -shared -fPIC -O2 -I"$cuda/include" -I"$cuda/extras/CUPTI/include" \
    tests/gpu/count_calls.c -o "$build/libcount_calls.so" -ldl || return 1
  for folder in "$cuda/lib64" "$cuda/extras/CUPTI/lib64" "$cuda/targets/x86_64-linux/lib"; do
    [[ ! -e $folder/libcupti.so.13 ]] || cupti=$folder/libcupti.so.13
  done
  python3 -B tests/gpu/one_launch.py "$build/lockstep" "$build/libcount_calls.so" \
    ${cupti:+--cupti "$cupti"}
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

rates() {
  rm -f "$build/rates.json"
  "$build/tests/gpu/operator_rates" --json "$build/rates.json"
}

torch_rates() {
  LD_LIBRARY_PATH=$own_libraries "$python" -B tests/gpu/torch_rates.py "$build/rates.json" \
    --json "$build/torch-rates.json"
}

exchange_cost() {
  local flags=(--pairs 5)
  if $quick; then flags=(--pairs 2 --models mlp,convnet); fi
  python3 -B tests/benchmarks/exchange_cost.py --device cuda --build "$build" --ranks 1,2 \
    "${flags[@]}"
}

# compare CASE: what runs both prints the tables; what goes wrong, to the log alone.
compare() {
  local ours=${LD_LIBRARY_PATH:-} code=0 flags=(--repetitions 2)
  # Minutes each: their own windows are what the medians are of.
  [[ $1 != resnet50 && $1 != gpt2-124m ]] || flags=(--repetitions 1)
  if $quick; then flags=(--repetitions 1 --modes compiled,graph,compiled-graph --quick); fi
  LD_LIBRARY_PATH=$own_libraries "$python" -B tests/benchmarks/compare_pytorch.py --device cuda \
    --python "$python" --build "$build" --libraries "$ours" --cases "$1" \
    "${flags[@]}" "${compare_flags[@]}" >"$build/compare-$1.md" || code=$?
  cat "$build/compare-$1.md"
  return $code
}

# sanitize TOOL: the operator tests, each kernel once. Of all kernels only own ones, which have
# lockstep in their mangled names, are looked at: those of cuBLASLt and cuDNN take hours and are not
# ours. initcheck has to see who else writes, and memory as it comes.
sanitize() {
  local own=(--kernel-name kns=lockstep) clear=1
  if [[ $1 == initcheck ]]; then own=() clear=0; fi
  LOCKSTEP_CLEAR=$clear "$sanitizer" --tool "$1" --error-exitcode 1 "${own[@]}" "$build/tests/ops/cuda_ops_test_gpu" \
    --gtest_filter='Cuda*'
}

mkdir -p "$build"
mpi=ON
command -v mpirun >/dev/null || mpi=OFF
onednn=ON
printf '%s\n' '#include <oneapi/dnnl/dnnl_version.h>' \
  '#if DNNL_VERSION_MAJOR < 2 || DNNL_VERSION_MAJOR > 3 || (DNNL_VERSION_MAJOR == 2 && DNNL_VERSION_MINOR < 6)' '#error another version' '#endif' |
  "${CXX:-c++}" ${GPU_TEST_PREFIX:+-I"$GPU_TEST_PREFIX/include"} -E -x c++ - >/dev/null 2>&1 || onednn=OFF
stage configure cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_FLAGS_RELEASE=-O2 -DLOCKSTEP_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native \
  -DLOCKSTEP_MPI=$mpi -DLOCKSTEP_ONEDNN=$onednn
stage build cmake --build "$build"
stage tests operator_tests
stage same-bits same_bits
stage graph-bits graph_bits
stage nccl-shared nccl_shared
stage one-launch one_launch
stage gpu-use gpu_use
stage memory python3 -B tests/gpu/memory_use.py "$build/lockstep" "$build/memory"
stage rates rates
stage torch-rates torch_rates
stage exchange-cost exchange_cost
for case in "${comparisons[@]}"; do stage "compare-$case" compare "$case"; done
if ! $quick; then
  for tool in memcheck racecheck initcheck; do stage "$tool" sanitize "$tool"; done
fi

# section TITLE STAGE FILE: the stage's tables, where it was run.
section() {
  matches "$2" && [[ -e $build/$3 ]] || return 0
  printf '\n### %s\n\n' "$1"
  cat "$build/$3"
}
{
  echo "## $(date -u +%Y-%m-%d), $device, commit $(git describe --always --dirty)"
  echo
  echo "| stage | verdict | what it counted | seconds |"
  echo "|---|---|---|---|"
  printf '%s\n' "${rows[@]}"
  section "Rates of the operators" rates rates.log
  section "The same products by PyTorch" torch-rates torch-rates.log
  section "Calls of a steady step" one-launch one-launch.log
  section "Memory against the plan" memory memory.log
  section "The reproducible exchange" exchange-cost exchange-cost.log
  for case in "${comparisons[@]}"; do
    section "Training: $case" "compare-$case" "compare-$case.md"
  done
} >"$results"
cat "$results"
exit $failed
