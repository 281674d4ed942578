# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Sourced by stages.sh: the stages that count and time, and those under compute-sanitizer.

# find_library NAME: its file, in the folders of the kit's programs.
find_library() {
  local folder
  for folder in ${GPU_KIT_LIBRARIES//:/ }; do
    if [[ -e $folder/$1 ]]; then echo "$folder/$1" && return; fi
  done
}

# Counts calls with a library of our own, as Nsight Systems may not be there.
stage_one_launch() {
  local folder counter cupti
  folder=$(lockstep_alone) || return
  counter=$(program libcount_calls.so) || return
  cupti=$(find_library libcupti.so.13)
  "$GPU_KIT_PYTHON" -B tests/gpu/one_launch.py "$folder/lockstep" "$counter" ${cupti:+--cupti "$cupti"}
}

stage_rates() {
  local rates flags=()
  rates=$(program operator_rates) || return
  if $small; then flags=(--small); fi
  rm -f "$work/rates.json"
  with_libraries "$rates" "${flags[@]}" --json "$work/rates.json"
}

stage_torch_rates() {
  if [[ ! -s $work/rates.json ]]; then
    echo "not measured: the stage rates left no rates.json"
    return 75
  fi
  local code=0
  "$GPU_KIT_PYTHON" -B tests/gpu/torch_rates.py "$work/rates.json" --json "$work/torch-rates.json" || code=$?
  # Its own word for it.
  return $((code == 3 ? 75 : code))
}

stage_exchange_cost() {
  local build flags=(--pairs 5 --ranks 1,2)
  build=$(lockstep_alone) || return
  if ! $GPU_KIT_MPI; then flags=(--pairs 5 --ranks 1); fi
  if $GPU_KIT_QUICK; then flags+=(--pairs 2 --models mlp,convnet); fi
  "$GPU_KIT_PYTHON" -B tests/benchmarks/exchange_cost.py --device cuda --build "$build" "${flags[@]}"
}

# stage_compare CASE: training against PyTorch. What runs both prints the tables; what goes wrong
# comes last.
stage_compare() {
  local build code=0 flags=(--repetitions 2) more=()
  build=$(lockstep_alone) || return
  # Minutes each: their own windows are what the medians are of.
  [[ $1 != resnet50 && $1 != gpt2-124m ]] || flags=(--repetitions 1)
  if $GPU_KIT_QUICK; then flags=(--repetitions 1 --modes compiled,graph,compiled-graph --quick); fi
  read -ra more <<<"$GPU_KIT_COMPARE"
  "$GPU_KIT_PYTHON" -B tests/benchmarks/compare_pytorch.py --device cuda --python "$GPU_KIT_PYTHON" \
    --build "$build" --cases "$1" "${flags[@]}" "${more[@]}" \
    2>"$work/compare-$1.err" || code=$?
  [[ ! -s $work/compare-$1.err ]] || sed 's/^/    /' "$work/compare-$1.err"
  return $code
}

# sanitize TOOL FILTER: operator tests, each kernel once. Of all kernels only own ones, which have
# lockstep in their mangled names, are looked at: those of cuBLASLt and cuDNN take hours and are not
# ours, nor are the calls that cuDNN makes to find out what there is. initcheck has to see who else
# writes, and memory as it comes.
sanitize() {
  local own=(--kernel-name kns=lockstep) clear=1
  if [[ -z $GPU_KIT_SANITIZER ]]; then
    echo "not measured: compute-sanitizer was not found"
    return 75
  fi
  if [[ $1 == initcheck ]]; then own=() clear=0; fi
  LOCKSTEP_CLEAR=$clear run_tests --filter "$2" --test-seconds 300 \
    --under "$GPU_KIT_SANITIZER --tool $1 --error-exitcode 99 --report-api-errors no ${own[*]}" cuda_ops_test
}
# In the sizes of GPT-2 nothing is seen that smaller ones do not show, and it takes hours. Nor are
# cuDNN's attention and the libraries' algorithms ours.
stage_memcheck() { sanitize memcheck "Cuda*-CudaSameBits.*:CudaLongAttention.*:CudaFusedAttention.*:CudaLibraryProducts.*:CudaTf32.*"; }
stage_racecheck() { sanitize racecheck "CudaKernel.*:CudaFlat*:CudaSmallKernels.*:CudaStepOutcome.*-*linear*:*conv2d*"; }
# It does not see what cuBLASLt's kernels for Hopper store: their results would be uninitialised.
stage_initcheck() { sanitize initcheck "CudaKernel.*:CudaMemory.*-*linear*:*conv2d*:*matmul*"; }
