#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that needs a GPU, in stages, those first that tell most. Works in a checkout, where it
# builds for the devices of this machine first, and in an unpacked bundle (bundle.sh), which holds
# the programs.
#
#   tests/gpu/run.sh [--seconds N] [--out DIR] [--only NAME,...] [--skip NAME,...] [--continue]
#                    [--quick] [--compare FLAGS] [--build DIR] [--emulated DIR] [--work DIR]
#                    [--stages FILE] [--list]
#
#   --seconds N      ends within N seconds: a stage that does not fit any more is left for another
#                    call, and one that is running then is cut off
#   --out DIR        gets RESULTS.md, a table of the stages and what they measured, and logs.tar.gz;
#                    both are written anew after every stage (default: the folder of --work)
#   --only NAME,...  these stages alone, or all whose names begin so
#   --skip NAME,...  all but these
#   --continue       keeps what passed in an earlier call with the same --work
#   --quick          comparisons once, with few modes and steps
#   --compare FLAGS  more of compare_pytorch.py, as one word: '--repetitions 1 --modes compiled'
#   --build DIR      where a checkout is built (default: build/gpu)
#   --emulated DIR   no GPU: those stages that make sense on the emulated device, in small, by the
#                    target gpu_kit_emulated of this build folder
#   --work DIR       for logs and what stages leave (default: work in a bundle, else BUILD/run)
#   --stages FILE    another program of stages than stages.sh, for tests
#   --list           names the stages with the seconds that each needs at least, and gets at most
#
# A stage that hangs, crashes or takes too long is cut off and named, and the others go on.
# surroundings.sh says what is found of the machine: MPI, CUDA's libraries, PyTorch; a stage that
# needs what is missing says so. PYTHON is the one that has PyTorch (default: python3).
# LOCKSTEP_TEST_DATA is the folder with tinyshakespeare.txt. LOCKSTEP_TEST_SEED is the seed of the
# operator tests, where it must not be a fresh one. GPU_TEST_PREFIX names a folder with libraries
# that a checkout's machine lacks (a root file system's usr: include, lib, bin).
#
# Exit code 3 without a GPU; 1 where anything failed or was cut off, with the table written all the
# same; 2 for unknown options. "not measured", where something is missing, and "does not work",
# where NCCL refuses ranks that share a GPU, are no failures, and no successes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

seconds=1000000 out='' only='' skip='' keep=false build=build/gpu emulated='' work='' list=false
stages=$here/stages.sh
export GPU_KIT_QUICK=false GPU_KIT_COMPARE=''
usage_error() {
  echo "run.sh: $1" >&2
  exit 2
}
while (($#)); do
  case $1 in
    --seconds | --out | --only | --skip | --compare | --build | --emulated | --work | --stages)
      (($# > 1)) || usage_error "$1 needs a value"
      case $1 in
        --compare) GPU_KIT_COMPARE=$2 ;;
        *) printf -v "${1#--}" %s "$2" ;;
      esac
      shift 2
      ;;
    --quick) GPU_KIT_QUICK=true && shift ;;
    --continue) keep=true && shift ;;
    --list) list=true && shift ;;
    -h | --help) sed -n '3,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" && exit 0 ;;
    *)
      usage_error "unknown option '$1' (known: --seconds, --out, --only, --skip, --continue, --quick, --compare, --build, --emulated, --work, --stages, --list)"
      ;;
  esac
done
[[ $seconds =~ ^[1-9][0-9]*$ ]] || usage_error "--seconds $seconds is not a positive number"
begun=$SECONDS

mapfile -t table < <(bash "$stages" --list)
if $list; then
  printf '%s\n' "${table[@]}"
  exit 0
fi
names=("${table[@]%% *}")
for wanted in ${only//,/ } ${skip//,/ }; do
  printf '%s\n' "${names[@]}" | grep --quiet "^$wanted" ||
    usage_error "no stage '$wanted'; stages: ${names[*]}"
done

# among NAME LIST: whether the list, by commas, has the name or its beginning.
among() {
  local entry
  for entry in ${2//,/ }; do [[ $1 == "$entry"* ]] && return 0; done
  return 1
}

# shellcheck source=tests/gpu/surroundings.sh
source "$here/surroundings.sh"
find_kit "$build" "$emulated"
find_device || exit 3
work=${work:-$GPU_KIT_DEFAULT_WORK}
mkdir -p "$work/logs" "$work/rows"
work=$(cd "$work" && pwd)
export GPU_KIT_WORK=$work GPU_KIT_STAGES=$stages
out=${out:-$work}
mkdir -p "$out"
$keep || rm -f "$work"/rows/* "$work"/logs/*
find_libraries
find_mpi
describe_surroundings >"$work/logs/surroundings.log" 2>&1 || true
cat "$work/logs/surroundings.log"

# shellcheck source=tests/gpu/results.sh
source "$here/results.sh"
failed=0
write_results
for ((i = 0; i < ${#table[@]}; i++)); do
  read -r name needs limit where <<<"${table[i]}"
  [[ -z $only ]] || among "$name" "$only" || continue
  [[ -z $skip ]] || ! among "$name" "$skip" || continue
  if [[ $where == checkout && $GPU_KIT_KIND != checkout ]]; then continue; fi
  if $keep && has_passed "$i" "$name"; then continue; fi
  left=$((seconds - (SECONDS - begun)))
  if [[ $where == gpu && $GPU_KIT_DEVICE == emulated ]]; then
    write_row "$i" "$name" "not run" "needs a GPU; this device is emulated" 0
  elif ((left < needs + kMargin)); then
    write_row "$i" "$name" "not run" "$((left > 0 ? left : 0)) s were left, $((needs + kMargin)) are needed" 0
  else
    limit=$((limit < left - kMargin ? limit : left - kMargin))
    run_stage "$i" "$name" "$limit"
  fi
  write_results
done
cat "$out/RESULTS.md"
exit $failed
