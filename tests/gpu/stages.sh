#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One stage of run.sh, which starts each as a process of its own:
#
#   stages.sh --list | NAME
#
# --list: lines of "name, seconds it needs at least, seconds it gets at most, where it runs: both (on
# a GPU and on the emulated device), gpu, checkout". Exit codes of a stage: 0, it passed; 75, something
# that it needs is missing, and it says what; 4, it does not work here, for a reason that is no
# fault of ours; others, it failed. What a stage prints last as "result: ..." stands in the table.
set -euo pipefail

if [[ ${1:-} == --list ]]; then
  # The most telling first; within the time of a few minutes an answer to most questions.
  cat <<'END'
configure 20 300 checkout
build 60 5400 checkout
nccl-probe 5 120 both
libraries 75 240 both
operators 40 400 both
attention 55 300 both
same-bits 20 240 both
graph-bits 70 400 both
dependent-launch 40 500 both
one-launch 20 240 gpu
memory 40 300 gpu
models 130 400 both
gpu-use 15 120 gpu
nccl-shared 30 240 gpu
rates 120 400 both
torch-rates 30 300 gpu
compare-gpt2-124m 60 900 gpu
compare-resnet50 60 900 gpu
compare-resnet18 60 600 gpu
compare-resnet18-batch-512 60 600 gpu
compare-nanogpt-char 60 600 gpu
compare-iris 40 400 gpu
exchange-cost 60 900 gpu
nccl-graphs 30 240 gpu
memcheck 60 900 gpu
racecheck 60 900 gpu
initcheck 60 900 gpu
END
  exit 0
fi

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/gpu/surroundings.sh
source "$here/surroundings.sh"
# shellcheck source=tests/gpu/training_stages.sh
source "$here/training_stages.sh"
# shellcheck source=tests/gpu/measuring_stages.sh
source "$here/measuring_stages.sh"
cd "$GPU_KIT_ROOT"
work=$GPU_KIT_WORK
small=false
[[ $GPU_KIT_DEVICE == gpu ]] || small=true

# configure, build: in a checkout, for the devices of this machine.
stage_configure() {
  local mpi=ON onednn=ON
  $GPU_KIT_MPI || mpi=OFF
  printf '%s\n' '#include <oneapi/dnnl/dnnl_version.h>' \
    '#if DNNL_VERSION_MAJOR < 2 || DNNL_VERSION_MAJOR > 3 || (DNNL_VERSION_MAJOR == 2 && DNNL_VERSION_MINOR < 6)' \
    '#error another version' '#endif' |
    "${CXX:-c++}" ${GPU_TEST_PREFIX:+-I"$GPU_TEST_PREFIX/include"} -E -x c++ - >/dev/null 2>&1 || onednn=OFF
  cmake -S . -B "$GPU_KIT_BUILD" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O2 \
    -DLOCKSTEP_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native -DLOCKSTEP_BENCHMARKS=OFF \
    -DLOCKSTEP_MPI=$mpi -DLOCKSTEP_ONEDNN=$onednn
}
stage_build() { cmake --build "$GPU_KIT_BUILD" --target gpu_kit; }

# run_tests OPTION... NAME: the kit's program NAME, once; see run_tests.py.
run_tests() {
  local file
  file=$(program "${!#}") || return
  "$GPU_KIT_PYTHON" -B tests/gpu/run_tests.py --libraries "$GPU_KIT_LIBRARIES" "${@:1:$#-1}" "$file"
}

# lockstep_alone: prints a folder with a program `lockstep`, which has the libraries of the kit, for
# scripts in Python, which themselves must not have them.
lockstep_alone() {
  local lockstep folder=$work/programs
  lockstep=$(program lockstep) || return
  mkdir -p "$folder"
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' "$GPU_KIT_LIBRARIES" "$lockstep" >"$folder/lockstep"
  chmod +x "$folder/lockstep"
  echo "$folder"
}

# fresh_seed: operator tests draw other inputs than the last time.
fresh_seed() {
  export LOCKSTEP_TEST_SEED=${LOCKSTEP_TEST_SEED:-$((RANDOM << 15 | RANDOM))}
  echo "LOCKSTEP_TEST_SEED=$LOCKSTEP_TEST_SEED"
}

# What stands on NVIDIA's libraries: the gradients of weights in fp32 from bf16, biases in fp32
# after products in bf16, sums that are split among blocks twice, convolutions, tf32.
library_tests='CudaLibraryProducts.*:CudaSameBits.*:CudaKernel.linear*:CudaKernel.conv2d*:CudaFusedActivation.*:CudaTf32.*'
# cuDNN's attention compiles its kernels for seconds each.
attention_tests='CudaLongAttention.*:CudaFusedAttention.*'

stage_nccl_probe() {
  local probe
  probe=$(program nccl_probe) || return
  with_libraries "$probe" --step-seconds 40
}
stage_libraries() {
  local code=0
  fresh_seed
  # The libraries are opened, and their functions found: not built where no toolkit was.
  if program cuda_libraries_test >/dev/null 2>&1; then run_tests cuda_libraries_test || code=$?; fi
  run_tests --filter "$library_tests" --test-seconds 90 cuda_ops_test || code=$?
  return $code
}
stage_operators() {
  fresh_seed
  run_tests --filter "Cuda*-$library_tests:$attention_tests" --test-seconds 120 cuda_ops_test
}
stage_attention() {
  local code=0
  fresh_seed
  run_tests --filter "$attention_tests" --test-seconds 60 cuda_ops_test || code=$?
  return $code
}
# Models against PyTorch's values, and kernel times by CUPTI.
stage_models() {
  local code=0 flags=(--test-seconds 120)
  # The large models would take minutes on the emulated device.
  if $small; then flags+=(--filter='-*resnet*:*vgg*'); fi
  run_tests "${flags[@]}" agreement_test || code=$?
  if [[ $GPU_KIT_DEVICE == gpu ]]; then run_tests --test-seconds 60 kernel_times_test || code=$?; fi
  return $code
}

function=stage_${1//-/_}
if [[ $1 == compare-* ]]; then
  stage_compare "${1#compare-}"
elif declare -F "$function" >/dev/null; then
  "$function"
else
  echo "stages.sh: no stage '$1'" >&2
  exit 2
fi
