#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the GPU kit here and packs it for a machine that has a driver, CUDA's libraries and Python,
# and neither a compiler, a network nor MPI: one archive with programs, their libraries, MPI, data and
# scripts.
#
#   tests/gpu/bundle.sh [--arch N] [--build DIR] [--out DIR] [--no-build] [--without-mpi] [--emulated]
#
#   --arch N         compute capability of the machine's GPUs (default: 90, H100 and H200)
#   --build DIR      where it is built (default: build/gpu-kit)
#   --out DIR        gets lockstep-gpu-COMMIT-smN.tar.xz (default: DIR of --build)
#   --no-build       packs what DIR holds
#   --without-mpi    a library in MPI's place is packed: stages that need several ranks are not measured
#   --emulated       packs the programs with the emulated device, by which prove_bundle.sh tries the
#                    scripts where there is no GPU
#
# There:
#
#   tar xf lockstep-gpu-*.tar.xz && lockstep-gpu/run.sh --seconds 570 --out results
#
# A machine without xz unpacks with: python3 -m tarfile -e FILE
#
# LOCKSTEP_TEST_DATA is the folder with tinyshakespeare.txt, without which compare-nanogpt-char has
# no text. Exit code 1 where the archive is larger than 24 MiB.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

max_mib=24 arch=90 build=build/gpu-kit out='' compile=true kind=gpu mpi=auto
while (($#)); do
  case $1 in
    --arch | --build | --out)
      (($# > 1)) || { echo "bundle.sh: $1 needs a value" >&2 && exit 2; }
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    --no-build) compile=false && shift ;;
    --without-mpi) mpi=none && shift ;;
    --emulated) kind=emulated && shift ;;
    -h | --help) sed -n '3,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" && exit 0 ;;
    *)
      echo "bundle.sh: unknown option '$1' (known: --arch, --build, --out, --no-build, --without-mpi, --emulated)" >&2
      exit 2
      ;;
  esac
done
mkdir -p "$build"
build=$(cd "$build" && pwd)
mkdir -p "${out:=$build}"
out=$(cd "$out" && pwd)
for tool in python3 readelf nm ldd strip cc tar xz; do
  command -v "$tool" >/dev/null || { echo "bundle.sh: $tool is missing" >&2 && exit 3; }
done

target=gpu_kit name=sm$arch
if [[ $kind == emulated ]]; then target=gpu_kit_emulated name=emulated; fi
if $compile; then
  with_mpi=ON
  command -v mpirun >/dev/null || with_mpi=OFF
  # oneDNN is left out: it is a third of the archive, and the CPU has to check kernels alone.
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O2 \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=30 -DLOCKSTEP_CUDA=ON \
    -DCMAKE_CUDA_ARCHITECTURES="$arch" -DLOCKSTEP_MPI=$with_mpi -DLOCKSTEP_ONEDNN=OFF \
    -DLOCKSTEP_BENCHMARKS=OFF
  cmake --build "$build" --target "$target"
fi

commit=$(git -C "$root" describe --always --dirty)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -B "$root/tests/gpu/pack_kit.py" "$build/tests/gpu/programs_$kind.txt" "$work/lockstep-gpu" \
  --device "$kind" --commit "$commit" --mpi "$mpi"
export SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct)
# Every program holds the same device code, which gzip's window of 32 KiB does not find again.
bash "$root/scripts/pack.sh" "$work/lockstep-gpu" "$work" xz
archive=$out/lockstep-gpu-$commit-$name.tar.xz
mv "$work/lockstep-gpu.tar.xz" "$archive"

bytes=$(stat --format=%s "$archive")
echo "$archive: $((bytes / 1048576)).$((bytes % 1048576 * 10 / 1048576)) MiB, unpacked $(du -sm "$work/lockstep-gpu" | cut -f 1) MiB"
if ((bytes > max_mib * 1048576)); then
  echo "bundle.sh: the archive is larger than $max_mib MiB" >&2
  exit 1
fi
