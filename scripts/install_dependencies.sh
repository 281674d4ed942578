#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs, through apt-get, the packages of Debian 12 or later (or of an Ubuntu of their age) that
# Lockstep needs and that are missing. Without apt-get it names them, also as dnf knows them.
#
#   scripts/install_dependencies.sh [--lint | --sanitizers | --fuzz | --slurm | --systems] [--dry-run]
#
#   --lint        also clang-format and clang-tidy, in the version that the source is formatted with,
#                 and node, which runs the script of the report's page in a test
#   --sanitizers  also lld, so that sanitizers' builds link in a third of the time
#   --fuzz        also clang with libFuzzer and its tools for coverage
#   --slurm       only Slurm and munge, without which the tests under Slurm are skipped
#   --systems     only debootstrap, so that tests/systems/debian.sh can make another Debian
#   --dry-run     print what is missing, one name a line, and install nothing
#
# Needs root or sudo only where something is missing; a second run is over at once.
set -euo pipefail

# Between bars: the package to install, and those that will do as well.
packages=(
  git cmake ninja-build g++ ccache
  openmpi-bin libopenmpi-dev         # the ranks
  libdnnl-dev                        # CPU kernels
  libfmt-dev nlohmann-json3-dev libcli11-dev
  zlib1g-dev libssl-dev              # gzip'd data sets, SHA-256
  'libjpeg-dev|libjpeg62-turbo-dev|libjpeg-turbo8-dev' libpng-dev  # images
  libprotobuf-dev protobuf-compiler  # TensorBoard's files
  libjs-chart.js                     # charts of `lockstep report`
  libgtest-dev libgmock-dev libbenchmark-dev
  python3                            # the scripts read summary.json with it
)
# The same on Fedora and RHEL.
dnf_packages=(
  git cmake ninja-build gcc-c++ ccache
  openmpi openmpi-devel
  onednn-devel
  fmt-devel json-devel cli11-devel
  zlib-devel openssl-devel
  libjpeg-turbo-devel libpng-devel
  protobuf-devel protobuf-compiler
  gtest-devel gmock-devel google-benchmark-devel
  python3
)
# On arm64 the CPU backend's loops take NEON through it.
[[ $(uname -m) != aarch64 ]] || packages+=(libsimde-dev) dnf_packages+=(simde-devel)
dry_run=false

for argument in "$@"; do
  case "$argument" in
    --lint) packages+=(clang-format-14 clang-tidy-14 nodejs) dnf_packages+=(clang-tools-extra nodejs) ;;
    --sanitizers) packages+=(lld) dnf_packages+=(lld) ;;
    --fuzz) packages+=(clang-14 libclang-rt-14-dev llvm-14) dnf_packages+=(clang compiler-rt llvm) ;;
    --slurm) packages=(slurm-wlm munge) dnf_packages=(slurm-slurmctld slurm-slurmd munge) ;;
    --systems) packages=(debootstrap) dnf_packages=(debootstrap) ;;
    --dry-run) dry_run=true ;;
    -h | --help)
      sed -n '3,16s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *)
      echo "install_dependencies.sh: unknown option '$argument' (known: --lint, --sanitizers, --fuzz, --slurm, --systems, --dry-run)" >&2
      exit 2
      ;;
  esac
done

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  cat >&2 <<MESSAGE
install_dependencies.sh: no apt-get here, so that what is missing is yours to install:
  Fedora, RHEL:   dnf install ${dnf_packages[*]}
                  (then, for MPI: module load mpi)
  Debian, Ubuntu: apt-get install ${packages[*]%%|*}
CMake names what it does not find.
MESSAGE
  exit 3
fi

# A package counts as present when it is fully installed, not when only its configuration is left.
installed=$(dpkg-query --show --showformat='${db:Status-Status} ${binary:Package}\n' |
  sed -n 's/^installed \([^:]*\).*/\1/p')
is_installed() { grep --quiet --line-regexp --fixed-strings -- "$1" <<<"$installed"; }
missing=()
for entry in "${packages[@]}"; do
  IFS='|' read -ra names <<<"$entry"
  for name in "${names[@]}"; do
    if is_installed "$name"; then continue 2; fi
  done
  missing+=("${names[0]}")
done

if ((${#missing[@]} == 0)); then
  exit 0
fi
if $dry_run; then
  printf '%s\n' "${missing[@]}"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    cat >&2 <<MESSAGE
install_dependencies.sh: ${#missing[@]} packages are missing, and installing them needs root or sudo.
hint: as root, run: apt-get update && apt-get install ${missing[*]}
MESSAGE
    exit 3
  fi
  as_root=(sudo)
fi

echo "Installing ${#missing[@]} packages: ${missing[*]}"
# `env` carries the setting through sudo, which drops the caller's variables.
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get --quiet=2 "$@" >>"$log" 2>&1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! apt update || ! apt install --yes --no-install-recommends "${missing[@]}"; then
  cat "$log" >&2
  cat >&2 <<MESSAGE
install_dependencies.sh: apt-get could not install ${missing[*]}
hint: see its messages above; docs/systems.md names the systems that Lockstep is built on
MESSAGE
  exit 3
fi
