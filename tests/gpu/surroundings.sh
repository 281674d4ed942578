# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh and stages.sh: the programs of the kit, and what the machine has for them. What
# is found is exported as GPU_KIT_*, so that a stage, which is a process, does not look again.

# find_kit BUILD EMULATED: where the programs are.
#   GPU_KIT_ROOT      of the checkout or the bundle
#   GPU_KIT_KIND      checkout, bundle or emulated (EMULATED is a build folder)
#   GPU_KIT_DEVICE    gpu or emulated
#   GPU_KIT_PROGRAMS  a file with lines of "name file", relative to its folder where not absolute
find_kit() {
  GPU_KIT_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
  GPU_KIT_DEVICE=gpu GPU_KIT_COMMIT=unknown
  if [[ -n $2 ]]; then
    GPU_KIT_KIND=emulated GPU_KIT_DEVICE=emulated
    GPU_KIT_BUILD=$(cd "$2" && pwd)
    GPU_KIT_PROGRAMS=$GPU_KIT_BUILD/tests/gpu/programs_emulated.txt
    GPU_KIT_DEFAULT_WORK=$GPU_KIT_BUILD/tests/gpu/run
  elif [[ -e $GPU_KIT_ROOT/kit.txt ]]; then
    GPU_KIT_KIND=bundle GPU_KIT_BUILD=$GPU_KIT_ROOT/bin
    GPU_KIT_PROGRAMS=$GPU_KIT_ROOT/programs.txt
    GPU_KIT_DEFAULT_WORK=$GPU_KIT_ROOT/work
    GPU_KIT_DEVICE=$(sed -n 's/^device //p' "$GPU_KIT_ROOT/kit.txt")
    GPU_KIT_COMMIT=$(sed -n 's/^commit //p' "$GPU_KIT_ROOT/kit.txt")
    [[ -n ${LOCKSTEP_TEST_DATA:-} ]] || export LOCKSTEP_TEST_DATA=$GPU_KIT_ROOT/data
    export GPU_TEST_GOLDENS=$GPU_KIT_ROOT/tests/reference/goldens
  else
    mkdir -p "$1"
    GPU_KIT_KIND=checkout
    GPU_KIT_BUILD=$(cd "$1" && pwd)
    GPU_KIT_PROGRAMS=$GPU_KIT_BUILD/tests/gpu/programs_gpu.txt
    GPU_KIT_DEFAULT_WORK=$GPU_KIT_BUILD/run
  fi
  if [[ $GPU_KIT_KIND != bundle ]]; then
    GPU_KIT_COMMIT=$(git -C "$GPU_KIT_ROOT" describe --always --dirty 2>/dev/null || echo unknown)
  fi
  export GPU_KIT_ROOT GPU_KIT_KIND GPU_KIT_DEVICE GPU_KIT_BUILD GPU_KIT_PROGRAMS GPU_KIT_COMMIT
}

# find_device: GPU_KIT_DEVICE_NAME; returns 3 where no GPU answers.
find_device() {
  local answer
  if [[ $GPU_KIT_DEVICE == emulated ]]; then
    export GPU_KIT_DEVICE_NAME="emulated device"
    return 0
  fi
  if ! command -v nvidia-smi >/dev/null; then
    echo "run.sh: no GPU answers here: nvidia-smi was not found" >&2
    return 3
  fi
  if ! answer=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>&1); then
    echo "run.sh: no GPU answers here: $answer" >&2
    return 3
  fi
  GPU_KIT_DEVICE_NAME=$(head -n 1 <<<"$answer")
  export GPU_KIT_DEVICE_NAME
}

# program NAME: its file. Where it was not built, says so and ends the stage as not measured.
program() {
  local file=''
  [[ ! -e $GPU_KIT_PROGRAMS ]] || file=$(sed -n "s/^$1 //p" "$GPU_KIT_PROGRAMS")
  [[ -z $file || $file == /* ]] || file=$(dirname "$GPU_KIT_PROGRAMS")/$file
  if [[ -z $file || ! -e $file ]]; then
    echo "not measured: $1 was not built" >&2
    return 75
  fi
  echo "$file"
}

# Folders of CUDA's libraries in Python's environment: site-packages/nvidia/*/lib.
python_library_folders() {
  "$GPU_KIT_PYTHON" - <<'END' 2>/dev/null || true
import glob, os, site, sys
roots = [*sys.path, *site.getsitepackages(), site.getusersitepackages()]
found = []
for root in roots:
    for folder in sorted(glob.glob(os.path.join(root, "nvidia", "*", "lib"))):
        if folder not in found and glob.glob(os.path.join(folder, "lib*.so*")):
            found.append(folder)
print(":".join(found))
END
}

# find_libraries: GPU_KIT_PYTHON, GPU_KIT_LIBRARIES, the LD_LIBRARY_PATH of the kit's programs, and
# GPU_KIT_SANITIZER. Python keeps LD_LIBRARY_PATH as it is, as PyTorch brings its own libraries.
find_libraries() {
  local folders toolkit
  GPU_KIT_PYTHON=${PYTHON:-$(command -v python3 || echo python3)}
  if [[ -n ${GPU_TEST_PREFIX:-} ]]; then
    export CMAKE_PREFIX_PATH=$GPU_TEST_PREFIX${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
    export PATH=$GPU_TEST_PREFIX/bin:$PATH
  fi
  GPU_KIT_LIBRARIES=${GPU_TEST_PREFIX:+$GPU_TEST_PREFIX/lib:$GPU_TEST_PREFIX/lib/x86_64-linux-gnu:}
  GPU_KIT_LIBRARIES+=${LD_LIBRARY_PATH:-}
  folders=$(python_library_folders)
  # A toolkit of the system comes last: it may be older than PyTorch's.
  for toolkit in /usr/local/cuda/lib64 /usr/local/cuda/extras/CUPTI/lib64; do
    [[ ! -d $toolkit ]] || folders+=:$toolkit
  done
  GPU_KIT_LIBRARIES+=:$folders
  GPU_KIT_LIBRARIES=$(sed -E 's/:+/:/g; s/^://; s/:$//' <<<"$GPU_KIT_LIBRARIES")
  command -v nvcc >/dev/null || export PATH=$PATH:/usr/local/cuda/bin
  GPU_KIT_SANITIZER=$(command -v compute-sanitizer || true)
  export GPU_KIT_PYTHON GPU_KIT_LIBRARIES GPU_KIT_SANITIZER
}

# find_mpi: GPU_KIT_MPI, whether several ranks can be started: that of the bundle, or the machine's.
find_mpi() {
  local packed=$GPU_KIT_ROOT/mpi stand_in=$GPU_KIT_ROOT/lib/lockstep/without_mpi
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  GPU_KIT_MPI=false
  # A bundle's programs were built with its own.
  if [[ -e $packed/environment.sh ]]; then
    # shellcheck source=/dev/null
    source "$packed/environment.sh" "$packed"
    GPU_KIT_LIBRARIES=$packed/lib${GPU_KIT_LIBRARIES:+:$GPU_KIT_LIBRARIES}
  fi
  # A bundle without it was built without MPI: another mpirun does not fit its programs.
  if [[ $GPU_KIT_KIND != bundle || -e $packed/environment.sh ]] && command -v mpirun >/dev/null; then
    GPU_KIT_MPI=true
  fi
  # Programs that need MPI's library start without it on one rank.
  if [[ -d $stand_in ]]; then
    GPU_KIT_MPI=false
    GPU_KIT_LIBRARIES=$stand_in${GPU_KIT_LIBRARIES:+:$GPU_KIT_LIBRARIES}
  fi
  export GPU_KIT_MPI GPU_KIT_LIBRARIES
}

# with_libraries COMMAND...: with the libraries of the kit's programs.
with_libraries() { LD_LIBRARY_PATH=$GPU_KIT_LIBRARIES "$@"; }

# unresolved: names libraries that a program of the kit needs and the machine lacks.
unresolved() {
  local name file missing
  while read -r name file; do
    [[ $file == /* ]] || file=$(dirname "$GPU_KIT_PROGRAMS")/$file
    [[ -e $file ]] || continue
    missing=$(LD_TRACE_LOADED_OBJECTS=1 with_libraries "$file" 2>&1 | grep 'not found' || true)
    [[ $name != *.so ]] || missing=''
    [[ -z $missing ]] || echo "$name: $missing"
  done <"$GPU_KIT_PROGRAMS"
}

# describe_surroundings: all of the above for whoever reads a log.
describe_surroundings() {
  local library folder found missing
  echo "device: $GPU_KIT_DEVICE_NAME"
  echo "system: $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release), $(uname -sr), $(nproc) cores"
  echo "kit: $GPU_KIT_KIND, commit $GPU_KIT_COMMIT"
  echo "python: $GPU_KIT_PYTHON, $("$GPU_KIT_PYTHON" --version 2>&1)"
  for library in libcublasLt.so.13 libcudnn.so.9 libnccl.so.2 libnvrtc.so.13 libcupti.so.13; do
    found=''
    for folder in ${GPU_KIT_LIBRARIES//:/ }; do
      if [[ -z $found && -e $folder/$library ]]; then found=$folder; fi
    done
    [[ -n $found ]] || ! ldconfig -p 2>/dev/null | grep --quiet "$library" || found="the system"
    echo "$library: ${found:-not found}"
  done
  "$GPU_KIT_PYTHON" - <<'END' 2>/dev/null || true
import importlib.metadata as metadata
names = ("torch", "nvidia-cublas", "nvidia-cudnn-cu13", "nvidia-nccl-cu13", "nvidia-cuda-nvrtc",
         "nvidia-cuda-cupti")
for name in names:
    try:
        print(f"{name}: {metadata.version(name)}")
    except metadata.PackageNotFoundError:
        print(f"{name}: no such package")
END
  if $GPU_KIT_MPI; then
    echo "MPI: $(command -v mpirun)"
  else
    echo "MPI: none: stages that need several ranks are not measured"
  fi
  echo "compute-sanitizer: ${GPU_KIT_SANITIZER:-none}"
  if [[ -e $GPU_KIT_PROGRAMS ]]; then
    missing=$(unresolved)
    echo "libraries that programs lack: ${missing:-none}"
  fi
}
