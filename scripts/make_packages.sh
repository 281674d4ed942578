#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes packages of a build: for Debian, for any system without root, for Python environments, for containers.
#
#   scripts/make_packages.sh [--debs] [--archive] [--wheel] [--containers] BUILD FOLDER
#
#   --debs        lockstep_*.deb and liblockstep-dev_*.deb, for the distribution of this machine (CPack)
#   --archive     lockstep-VERSION-MACHINE.tar.gz: unpacked anywhere, carries its libraries but those of C, MPI and CUDA
#   --wheel       lockstep-VERSION-*.whl: the archive's files, for pip
#   --containers  Containerfile and lockstep.def (Apptainer) that install the .deb
#   BUILD         where `lockstep` was built, as build/release
#   FOLDER        gets the files; made where it is missing
#
# Without one of the first four: all, but .debs and containers only where dpkg-dev and file are. Needs Python 3, binutils, a C compiler.
# Called twice, it makes equal bytes, with the time of the build (or SOURCE_DATE_EPOCH).
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
umask 022

fail() {
  echo "make_packages.sh: $1" >&2
  exit "${2:-2}"
}

parts=
while [[ ${1:-} == -* ]]; do
  case "$1" in
    -h | --help) sed -n '3,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit ;;
    --debs | --archive | --wheel | --containers) parts+=" ${1#--} " ;;
    *) fail "unknown option '$1' (known: --debs, --archive, --wheel, --containers)" ;;
  esac
  shift
done
(($# == 2)) || fail "expected BUILD and FOLDER: scripts/make_packages.sh build/release packages"
build=$1
[[ -x $build/lockstep ]] ||
  fail "$build/lockstep is missing: scripts/build.sh release lockstep builds it" 3
build=$(cd "$build" && pwd)
mkdir -p "$2"
folder=$(cd "$2" && pwd)
if [[ -z $parts ]]; then
  parts=" archive  wheel "
  if command -v dpkg-shlibdeps >/dev/null && command -v file >/dev/null; then
    parts+=" debs  containers "
  else
    echo "make_packages.sh: no .debs and no containers: dpkg-shlibdeps or file is missing (apt-get install dpkg-dev file)" >&2
  fi
fi
wanted() { [[ $parts == *" $1 "* ]]; }
need() {
  local tool
  for tool; do command -v "$tool" >/dev/null || fail "$tool is missing" 3; done
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$("$build/lockstep" --version)
version=${version#lockstep }
if [[ -z ${SOURCE_DATE_EPOCH:-} ]]; then
  SOURCE_DATE_EPOCH=$("$build/lockstep" --version --json | python3 -c 'import datetime, json, sys
created = json.load(sys.stdin)["sbom"]["creationInfo"]["created"].replace("Z", "+00:00")
print(int(datetime.datetime.fromisoformat(created).timestamp()))')
fi
export SOURCE_DATE_EPOCH

if wanted debs; then
  need dpkg-shlibdeps dpkg-deb file gzip
  (cd "$work" && cpack --config "$build/CPackConfig.cmake" -G DEB -B "$work/cpack") >"$work/log" 2>&1 ||
    { cat "$work/log" >&2 && fail "cpack failed" 1; }
  mv "$work"/cpack/*.deb "$folder/"
fi

if wanted archive || wanted wheel; then
  need python3 readelf nm ldd cc
  name=lockstep-$version-$(uname -m)
  cmake --install "$build" --component runtime --strip --prefix "$work/$name" >"$work/log" ||
    { cat "$work/log" >&2 && fail "the installation failed" 1; }
  python3 -B "$source/packaging/bundle.py" "$work/$name"
  ! wanted archive || "$source/scripts/pack.sh" "$work/$name" "$folder"
  ! wanted wheel || python3 -B "$source/packaging/make_wheel.py" "$work/$name" "$version" "$folder" >/dev/null
fi

if wanted containers; then
  deb=$(cd "$folder" && find . -name "lockstep_$version-*.deb" -printf '%f\n' | sort | tail -n 1)
  [[ $deb ]] || fail "containers install the .deb, and $folder has none: add --debs"
  # shellcheck source=/dev/null
  image=$(. /etc/os-release && echo "$ID:$VERSION_ID")
  [[ $image != debian:* ]] || image+=-slim
  install="apt-get update \\&\\& DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends /tmp/$deb"
  install+=" \\&\\& rm -rf /tmp/$deb /var/lib/apt/lists/*"
  for file in Containerfile lockstep.def; do
    sed "s|@IMAGE@|$image|; s|@DEB@|$deb|g; s|@INSTALL@|$install|" "$source/packaging/$file.in" >"$folder/$file"
  done
fi
