# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Sourced by stages.sh: the stages that train small models and look at what came of it.

# train OUT FLAG...: ten steps, none of which is logged: those would not be captured.
train() {
  local out=$1 lockstep sizes=(--steps 10 --global-batch 64 --micro-batch 16)
  lockstep=$(program lockstep) || return
  if $small; then sizes=(--steps 6 --global-batch 8 --micro-batch 2); fi
  shift
  rm -rf "$out"
  with_libraries timeout --foreground 200 "$lockstep" train --out "$out" --eval-every 0 --log-every 0 \
    --checkpoint-every 0 --device cuda "${sizes[@]}" "$@"
}

# replays OUT: whether steps of that run were replayed.
replays() {
  "$GPU_KIT_PYTHON" -c 'import json, sys
use = json.load(open(sys.argv[1] + "/summary.json"))["graph_use"]
sys.exit(None if use["replays"] else "nothing was replayed: " + use["why_not"])' "$1"
}

convnet=(--data glyphs --model convnet --batch-norm group:16)
text() { cat README.md docs/*.md >"$work/text.txt"; }
gpt() { # LAYERS: flags of a small transformer
  local size=(--width 64 --context 64)
  if $small; then size=(--width 32 --context 32); fi
  echo --data "text:$work/text.txt" --model gpt --layers "$1" --heads 2 "${size[@]}"
}

# same_weights A B
same_weights() { cmp "$work/$1/model.safetensors" "$work/$2/model.safetensors"; }

# Four micro-batches on one rank, and one on each of four ranks that share the GPU. Where several
# ranks cannot be started, the same rank twice.
stage_same_bits() {
  local compared=0 model ranks=4 flags what="on one rank and on four"
  # Ranks on emulated devices have no NCCL between them.
  if $small; then export LOCKSTEP_NCCL=off; fi
  if ! $GPU_KIT_MPI; then ranks=1 what="twice on one rank, as no others can be started"; fi
  text
  for model in convnet gpt; do
    flags=("${convnet[@]}")
    if [[ $model == gpt ]]; then
      read -ra flags <<<"$(gpt 2) --precision bf16 --optimizer adamw --clip-norm 1"
    elif $small; then
      flags=(--data glyphs --model convnet)
    fi
    echo "$model, one rank"
    train "$work/one" --ranks 1 "${flags[@]}" || return
    echo "$model, $ranks rank(s)"
    train "$work/four" --ranks $ranks "${flags[@]}" || return
    same_weights one four || return 1
    compared=$((compared + 1))
  done
  echo "result: the same bits $what: $compared of 2 models"
}

# same_with_graphs FLAG...: what a graph does again has the bits of what the host asks for.
same_with_graphs() {
  train "$work/graph" "$@" || return
  replays "$work/graph" || return 1
  LOCKSTEP_GRAPH=0 train "$work/no-graph" "$@" || return
  same_weights graph no-graph
}

# Dropout, AdamW and a schedule, which change from step to step, are in it. Batch norm over ranks
# that share the GPU cuts graphs at its statistics.
stage_graph_bits() {
  local name precision compared=0 cases=0 flags models=(mlp convnet resnet18 gpt)
  local adamw='--optimizer adamw --lr-schedule cosine --warmup-steps 2'
  if $small; then models=(mlp convnet gpt); fi
  text
  for name in "${models[@]}"; do
    case $name in
      mlp) flags="--data glyphs --model mlp --hidden 64,32 --dropout 0.1 $adamw" ;;
      convnet) flags="--data glyphs --model convnet --momentum 0.9 --dropout 0.1" ;;
      resnet18) flags="--data synthetic:32x32x3:10 --model resnet18 --stem cifar --momentum 0.9" ;;
      gpt) flags="$(gpt 2) --dropout 0.1 --clip-norm 1 $adamw" ;;
    esac
    for precision in fp32 bf16; do
      echo "$name, $precision"
      cases=$((cases + 1))
      # shellcheck disable=SC2086
      if same_with_graphs --ranks 1 --precision $precision $flags; then
        compared=$((compared + 1))
      else
        echo "NOT the same: $name, $precision"
      fi
    done
  done
  if $GPU_KIT_MPI && ! $small; then
    echo "convnet, batch norm over two ranks"
    cases=$((cases + 1))
    if same_with_graphs --ranks 2 --data glyphs --model convnet --batch-norm group:32; then
      compared=$((compared + 1))
    fi
  fi
  echo "result: the same bits with and without graphs: $compared of $cases"
  ((compared == cases))
}

# images FOLDER: of noise, in MNIST's files, which are read faster than glyphs are drawn.
images() {
  "$GPU_KIT_PYTHON" - "$1" <<'END'
import os, pathlib, struct, sys
folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for part, count in (("train", 16384), ("t10k", 1024)):
    images = struct.pack(">4i", 2051, count, 28, 28) + os.urandom(count * 784)
    (folder / f"{part}-images-idx3-ubyte").write_bytes(images)
    labels = bytes(byte % 10 for byte in os.urandom(count))
    (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, count) + labels)
END
}

# Kernels that are launched before the one before has ended: the same bits, captured and not, and
# what it does to a step. Off and on by turns, as clocks change from run to run.
stage_dependent_launch() {
  local name graph turn state lockstep compared=0 cases=0 flags
  local adamw='--optimizer adamw --clip-norm 1'
  lockstep=$(program lockstep) || return
  text
  $small || images "$work/images"
  for name in mlp convnet gpt; do
    case $name in
      mlp) flags="--data glyphs --model mlp --hidden 64,32 $adamw" ;;
      convnet) flags="--data glyphs --model convnet --momentum 0.9" ;;
      gpt) flags="$(gpt 2) --precision bf16 $adamw" ;;
    esac
    for graph in 1 0; do
      echo "$name, LOCKSTEP_GRAPH=$graph"
      cases=$((cases + 1))
      # shellcheck disable=SC2086
      LOCKSTEP_GRAPH=$graph train "$work/dependent-0" --ranks 1 $flags || return
      # shellcheck disable=SC2086
      LOCKSTEP_GRAPH=$graph LOCKSTEP_DEPENDENT_LAUNCH=1 train "$work/dependent-1" --ranks 1 $flags || return
      if same_weights dependent-0 dependent-1; then compared=$((compared + 1)); else echo "NOT the same: $name"; fi
    done
    $small && continue
    flags=${flags/--data glyphs/--data "mnist:$work/images"}
    for turn in 1 2 3; do
      for state in 0 1; do
        rm -rf "$work/timed-$name-$state-$turn"
        # shellcheck disable=SC2086
        LOCKSTEP_DEPENDENT_LAUNCH=$state with_libraries timeout --foreground 100 "$lockstep" train --device cuda \
          --out "$work/timed-$name-$state-$turn" --ranks 1 --steps 3000 --global-batch 64 --micro-batch 64 \
          --eval-every 0 --log-every 0 --checkpoint-every 0 $flags || return
      done
    done
    "$GPU_KIT_PYTHON" - "$work/timed-$name" <<'END'
import json, statistics, sys
rates = [[json.load(open(f"{sys.argv[1]}-{state}-{turn}/summary.json"))["samples_per_s"] for turn in (1, 2, 3)]
         for state in (0, 1)]
print("samples/s off:", *(f"{r:,.0f}" for r in rates[0]), "on:", *(f"{r:,.0f}" for r in rates[1]))
print(f"a step takes {statistics.median(off / on for off, on in zip(*rates)):.3f} times as long with it")
END
  done
  echo "result: the same bits with and without dependent launches: $compared of $cases"
  ((compared == cases))
}

# refusal FOLDER LOG: what NCCL said, in its own files and the run's output.
refusal() {
  { grep --no-filename --only-matching 'NCCL WARN .*' "$1"/* ||
    grep --ignore-case --extended-regexp 'error.*nccl|nccl.*(error|invalid|fail|refuse)' "$2"; } |
    head -n 1
}

# nccl_shared GRAPH: ranks that share the one GPU over NCCL, each with a host id of its own, with
# LOCKSTEP_GRAPH as that. What NCCL says of itself goes to files, which show whether it was used at all.
nccl_shared() {
  local ranks folder why code
  if ! $GPU_KIT_MPI; then
    echo "not measured: several ranks need MPI, and none was found"
    return 75
  fi
  train "$work/nccl-one" --ranks 1 "${convnet[@]}" || return
  for ranks in 2 4; do
    LOCKSTEP_NCCL=off train "$work/nccl-off" --ranks $ranks "${convnet[@]}" || return
    same_weights nccl-one nccl-off || return 1
    folder=$work/nccl-says-$ranks
    rm -rf "$folder" && mkdir -p "$folder"
    code=0
    LOCKSTEP_GRAPH=$1 LOCKSTEP_NCCL=shared NCCL_SOCKET_IFNAME=lo NCCL_DEBUG=INFO NCCL_DEBUG_FILE="$folder/%p" train "$work/nccl" \
      --ranks $ranks "${convnet[@]}" >"$folder.log" 2>&1 || code=$?
    cat "$folder.log"
    if ((code)); then
      why=$(refusal "$folder" "$folder.log" || true)
      [[ -n $why && $code != 124 ]] || return $code  # not what NCCL said, or it hangs
      echo "does not work: $ranks ranks: $why"
      return 4
    fi
    if ! grep --quiet --extended-regexp "nranks $ranks .*Init COMPLETE" "$folder"/*; then
      why=$(refusal "$folder" "$folder.log" || true)
      echo "does not work: $ranks ranks: ${why:-NCCL was not asked for a communicator of $ranks ranks}"
      return 4
    fi
    same_weights nccl-one nccl || return 1
    replays "$work/nccl" || return 1
    echo "the same bits: $ranks ranks over NCCL, over MPI, and one rank"
  done
}
stage_nccl_shared() { nccl_shared 1; }
# Its collectives inside of graphs, in which two ranks on an H200 have crashed.
stage_nccl_graphs() { nccl_shared nccl; }

# What the watch says of some seconds of training is there, and can be true.
stage_gpu_use() {
  local lockstep
  lockstep=$(program lockstep) || return
  rm -rf "$work/use"
  with_libraries "$lockstep" train --out "$work/use" --device cuda --ranks 1 --steps 4000 --eval-every 0 \
    --log-every 500 --data synthetic:32x32x3 --model resnet18 --global-batch 128 --checkpoint-every 0
  "$GPU_KIT_PYTHON" - "$work/use" <<'END'
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
print(f"result: {gpu['samples']} looks, busy {gpu['busy']['most']:.0%} at most")
END
}

# What the device holds against the plan, and what CUDA graphs add to it.
stage_memory() {
  local folder
  folder=$(lockstep_alone) || return
  "$GPU_KIT_PYTHON" -B tests/gpu/memory_use.py "$folder/lockstep" "$work/memory"
}
