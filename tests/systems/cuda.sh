#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds Lockstep with another CUDA toolkit, for one kind of GPU, and runs the tests of NVIDIA's
# libraries that need no GPU.
#
#   bash tests/systems/cuda.sh VERSION [--root DIR] [--architecture N] [--cudnn V] [--nccl V] [--mirror URL] [--toolkit] [TARGET...]
#
#   VERSION           12.4, or 13.0 and later
#   --root DIR        where toolkits and builds are kept between calls (default: ~/.cache/lockstep/systems)
#   --architecture N  that kernels are compiled for (default: 90, H100 and H200)
#   --cudnn V         of cuDNN (default: 9.1.0.70, the oldest, for CUDA 12.4, the newest for CUDA 13)
#   --nccl V          of NCCL (default: 2.26.2 for CUDA 12.4, the newest for CUDA 13)
#   --mirror URL      of Debian (default: the one that apt uses here)
#   --toolkit         make the toolkit and print its folder, nothing more
#   TARGET...         built in place of lockstep and the tests, which then do not run
#
# The toolkit is put together from NVIDIA's packages of the Python index, in ROOT/cuda-VERSION/toolkit.
# Those of CUDA 12 hold neither nvcc nor the static runtime: those of 12.4 come from Debian 13's nvidia-cuda-toolkit
# and nvidia-cuda-dev, unpacked and not installed. cuBLAS (CUDA 12), cuDNN and NCCL stay in a Python environment next to it,
# ROOT/cuda-VERSION/python, where CMake and the program have to find them by LOCKSTEP_CUDA_PATH.
# The build goes on where an earlier call was stopped. Needs network, pip, ninja, and the libraries that
# every build of Lockstep needs.
set -euo pipefail

fail() {
  echo "cuda.sh: $1" >&2
  exit "${2:-2}"
}

source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
root=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/systems
version=
architecture=90
cudnn=
nccl=
mirror=
toolkit_only=false
while (($#)); do
  case "$1" in
    -h | --help)
      sed -n '3,24s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --root | --architecture | --cudnn | --nccl | --mirror)
      (($# > 1)) || fail "$1 needs a value"
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    --toolkit)
      toolkit_only=true
      shift
      ;;
    -*) fail "unknown option '$1' (known: --root, --architecture, --cudnn, --nccl, --mirror, --toolkit)" ;;
    *)
      [[ -z $version ]] || break
      version=$1
      shift
      ;;
  esac
done
case $version in
  12.4) major=12 ;;
  13.*) major=13 ;;
  '') fail "which version? 12.4, or 13.0 and later" ;;
  *) fail "no compiler is known for CUDA $version: 12.4, or 13.0 and later" ;;
esac
mkdir -p "$root"
folder=$(cd "$root" && pwd)/cuda-$version
python=$folder/python
toolkit=$folder/toolkit

# Debian 13's packages, fetched by apt with folders of its own; nothing is installed. Of nvidia-cuda-dev, a gigabyte,
# the runtime's static library is taken, which the packages of CUDA 12 lack.
unpack_debian_nvcc() {
  local apt=$folder/apt
  [[ -n $mirror ]] || mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' |
    grep -v security | head -1 || true)
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian} trixie non-free" \
    >"$apt/sources.list"
  local options=(-qq -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o Dir::State::status=/dev/null
    -o APT::Sandbox::User=)
  (cd "$apt" && apt-get "${options[@]}" update && apt-get "${options[@]}" download nvidia-cuda-toolkit nvidia-cuda-dev)
  dpkg -x "$apt"/nvidia-cuda-toolkit_12.4*.deb "$apt/tree"
  cp --archive "$apt/tree/usr/lib/nvidia-cuda-toolkit/bin/nvcc" "$1/bin/nvcc"
  cp --archive "$apt"/tree/usr/bin/{bin2c,cudafe++,cuobjdump,fatbinary,nvdisasm,nvlink,ptxas} "$1/bin/"
  cp --archive "$apt/tree/usr/lib/nvidia-cuda-toolkit/bin/crt" "$1/bin/crt"
  dpkg --fsys-tarfile "$apt"/nvidia-cuda-dev_12.4*.deb |
    tar --extract --wildcards --transform 's,.*/,,' --directory "$1/lib" '*/libcudart_static.a' '*/libcudadevrt.a'
  rm "$apt"/nvidia-cuda-dev_*.deb
  mkdir -p "$1/nvvm/bin"
  cp --archive "$apt/tree/usr/lib/nvidia-cuda-toolkit/bin/cicc" "$1/nvvm/bin/"
  cat >"$1/bin/nvcc.profile" <<'END'
TOP              = $(_HERE_)/..
CICC_PATH        = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
LD_LIBRARY_PATH += $(TOP)/lib64:
PATH            += $(CICC_PATH):$(_HERE_):
INCLUDES        +=  "-I$(TOP)/include" $(_SPACE_)
LIBRARIES        =+ $(_SPACE_) "-L$(TOP)/lib64/stubs" "-L$(TOP)/lib64"
CUDAFE_FLAGS    +=
PTXAS_FLAGS     +=
END
}

make_toolkit() {
  local packages site part=$toolkit.part name
  if ((major == 12)); then
    packages=("nvidia-cuda-nvcc-cu12==$version.*" "nvidia-cuda-runtime-cu12==$version.*" "nvidia-cuda-cccl-cu12==$version.*"
      "nvidia-cuda-cupti-cu12==$version.*" "nvidia-cuda-nvrtc-cu12==$version.*" "nvidia-nvtx-cu12==$version.*"
      "nvidia-cublas-cu12==$version.*" "nvidia-cudnn-cu12==${cudnn:-9.1.0.70}" "nvidia-nccl-cu12==${nccl:-2.26.2}")
  else
    packages=("nvidia-cuda-nvcc==$version.*" "nvidia-cuda-crt==$version.*" "nvidia-nvvm==$version.*"
      "nvidia-cuda-runtime==$version.*" nvidia-cuda-cccl "nvidia-cuda-cupti==$version.*" "nvidia-cuda-nvrtc==$version.*"
      "nvidia-nvtx==$version.*" nvidia-cublas "nvidia-cudnn-cu13${cudnn:+==$cudnn}" "nvidia-nccl-cu13${nccl:+==$nccl}")
  fi
  rm -rf "$python" "$part"
  python3 -m venv "$python"
  "$python/bin/pip" install --quiet --disable-pip-version-check --no-deps "${packages[@]}"
  site=$(echo "$python"/lib/python3*/site-packages)
  mkdir -p "$part/bin" "$part/include" "$part/lib"
  ln -s lib "$part/lib64"
  if ((major == 12)); then
    for name in cuda_nvcc cuda_runtime cuda_cccl cuda_cupti cuda_nvrtc nvtx; do
      cp --archive "$site/nvidia/$name/include/." "$part/include/"
      cp --archive "$site/nvidia/$name/lib/." "$part/lib/"
      rm -r "$site/nvidia/$name/include"
    done
    mkdir -p "$part/nvvm"
    cp --archive "$site/nvidia/cuda_nvcc/nvvm/libdevice" "$part/nvvm/"
    unpack_debian_nvcc "$part"
  else
    for name in bin include lib nvvm; do
      cp --archive --link "$site/nvidia/cu13/$name/." "$part/$name/"
    done
  fi
  # CMake looks for the runtime by the name that linkers use.
  (cd "$part/lib" && for name in lib*.so.*; do [[ -e ${name%%.so.*}.so ]] || ln -s "$name" "${name%%.so.*}.so"; done)
  mv "$part" "$toolkit"
}

mkdir -p "$folder"
exec {lock}>"$folder.lock"
flock "$lock"
[[ -d $toolkit ]] || make_toolkit >&2
if $toolkit_only; then
  echo "$toolkit"
  exit
fi

# Ahead of cuDNN and NCCL that the system may have.
LOCKSTEP_CUDA_PATH=$(echo "$python"/lib/python3*/site-packages)
export LOCKSTEP_CUDA_PATH
unset VIRTUAL_ENV CONDA_PREFIX CUDA_HOME CUDA_PATH LIBRARY_PATH LD_LIBRARY_PATH
build=$folder/build
# Warnings are errors, as in .ci/run.
[[ -e $build/build.ninja ]] ||
  cmake --preset release -S "$source" -B "$build" \
    -DLOCKSTEP_CUDA=ON -DLOCKSTEP_WERROR=ON -DLOCKSTEP_BENCHMARKS=OFF \
    -DCMAKE_CUDA_COMPILER="$toolkit/bin/nvcc" -DCMAKE_CUDA_ARCHITECTURES="$architecture"
if (($#)); then
  exec cmake --build "$build" --parallel "${BUILD_JOBS:-$(nproc)}" --target "$@"
fi
cmake --build "$build" --parallel "${BUILD_JOBS:-$(nproc)}" \
  --target lockstep cuda_libraries_test cudnn_attention_test cudnn_plans_test nccl_library_test cupti_tracer_test
"$build/lockstep" --version --json
for test in cuda_libraries_test cudnn_attention_test cudnn_plans_test nccl_library_test cupti_tracer_test; do
  "$(find "$build/tests" -name $test -type f | head -1)" --gtest_brief=1
done
