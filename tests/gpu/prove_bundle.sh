#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries archives of bundle.sh without a GPU: in a bare Debian with Python and nothing else, without a
# network, every library is found, run.sh says that no GPU answers, the packed MPI starts ranks, and
# the stages run on the emulated device.
#
#   tests/gpu/prove_bundle.sh GPU_ARCHIVE EMULATED_ARCHIVE [--suite trixie|bookworm] [--root DIR]
#                             [--seconds N] [--only NAME,...]
#
# --suite and --root are debian.sh's (tests/systems), which makes the tree and needs root and
# debootstrap; --seconds (default: 900) and --only are run.sh's, on the emulated device. What it prints
# last is the table.
set -euo pipefail

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
ok() { echo "ok: $*"; }

if [[ ${1:-} != --inside ]]; then
  archives=() systems=() options=()
  while (($#)); do
    case $1 in
      -h | --help) sed -n '3,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" && exit 0 ;;
      --suite | --root) systems+=("$1" "$2") && shift 2 ;;
      --seconds | --only) options+=("$1" "$2") && shift 2 ;;
      -*) echo "prove_bundle.sh: unknown option '$1' (known: --suite, --root, --seconds, --only)" >&2 && exit 2 ;;
      *) archives+=("$1") && shift ;;
    esac
  done
  ((${#archives[@]} == 2)) || { echo "prove_bundle.sh: two archives are needed" >&2 && exit 2; }
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  cp "${archives[0]}" "$folder/gpu.tar.xz"
  cp "${archives[1]}" "$folder/emulated.tar.xz"
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
  bash "$root/tests/systems/debian.sh" "${systems[@]}" --bind "$folder" \
    bash tests/gpu/prove_bundle.sh --inside "$folder" "${options[@]}"
  exit
fi

folder=$2
shift 2
if [[ ${1:-} != --alone ]]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends python3 >/dev/null
  exec unshare --net bash tests/gpu/prove_bundle.sh --inside "$folder" --alone "$@"
fi
shift
# The loopback interface, which ranks of one host find each other by.
python3 -c 'import fcntl, socket, struct
with socket.socket() as s: fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 1))'

for tool in cc cmake nvcc mpirun nvidia-smi; do
  ! command -v $tool >/dev/null || fail "this tree has $tool"
done
ok "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release) with $(python3 --version), no compiler, no MPI, no network"

work=$(mktemp -d)
for kind in gpu emulated; do
  mkdir "$work/$kind"
  # As on a machine without xz.
  python3 -W ignore -m tarfile -e "$folder/$kind.tar.xz" "$work/$kind"
  kit=$work/$kind/lockstep-gpu
  ok "$kind: $(stat --format=%s "$folder/$kind.tar.xz") bytes, unpacked $(du -sm "$kit" | cut -f 1) MiB"
  count=0
  while IFS= read -r file; do
    path=$kit/mpi/lib:$kit/lib/lockstep/without_mpi
    # By the rpath of the program that loads it.
    [[ $file != "$kit/lib"/* ]] || path+=:$kit/lib/lockstep
    missing=$(LD_TRACE_LOADED_OBJECTS=1 LD_LIBRARY_PATH=$path \
      /lib64/ld-linux-x86-64.so.2 "$file" 2>&1 | grep 'not found' || true)
    [[ -z $missing ]] || fail "$file: $missing"
    count=$((count + 1))
  done < <(find "$kit/bin" "$kit/mpi/bin" "$kit/lib" "$kit/mpi" -type f \( -perm -100 -o -name '*.so*' \) ! -name '*.sh' |
    sort -u)
  ok "$kind: $count programs and libraries find all that they need"
done

kit=$work/gpu/lockstep-gpu code=0
"$kit/run.sh" --out "$work/out" >"$work/log" 2>&1 || code=$?
[[ $code == 3 ]] && grep --quiet 'no GPU answers' "$work/log" || fail "run.sh: exit code $code: $(cat "$work/log")"
ok "run.sh: exit code 3: $(head -n 1 "$work/log")"

if [[ -d $kit/mpi ]]; then
  # shellcheck source=/dev/null
  (
    source "$kit/mpi/environment.sh" "$kit/mpi"
    export LD_LIBRARY_PATH=$kit/mpi/lib OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    for ranks in 1 4; do
      "$kit/bin/lockstep" train --device cpu --ranks $ranks --steps 5 --data glyphs --model mlp --out "$work/run$ranks" \
        --global-batch 64 --micro-batch 16 >"$work/log" 2>&1 || { cat "$work/log" >&2 && exit 1; }
    done
    cmp "$work/run1/model.safetensors" "$work/run4/model.safetensors"
  ) || fail "training on four ranks by the packed MPI"
  ok "the packed MPI starts four ranks, which have the bits of one"
fi

code=0
"$work/emulated/lockstep-gpu/run.sh" --seconds 900 --out "$work/out" "$@" || code=$?
[[ $code == 0 ]] || { tail -n 40 "$work/emulated/lockstep-gpu/work"/logs/*.log && fail "run.sh on the emulated device: exit code $code"; }
ok "run.sh on the emulated device"
