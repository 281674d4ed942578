#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the files of a release from a signed tag, without CUDA, and signs their checksums.
#
#   scripts/release.sh TAG KEY FOLDER [CMAKE_OPTION...]
#
#   TAG      as v0.1.0, signed with KEY
#   KEY      private SSH key of releases, KEY.pub beside it
#   FOLDER   made, and must not be there: source archive, program, SBOM, SHA256SUMS and SHA256SUMS.sig
#
# Called twice, it makes the same archives, byte for byte.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if (($# < 3)); then
  sed -n '3,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
tag=$1 key=$(realpath "$2") folder=$3
shift 3
mkdir "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "lockstep $(cat "$key.pub")" >"$work/signers"
git -C "$root" -c gpg.ssh.allowedSignersFile="$work/signers" verify-tag "$tag"
name=lockstep-${tag#v}
machine=$(uname -m)

# Neither order, owner, rights nor times of this machine; no time of gzip.
SOURCE_DATE_EPOCH=$(git -C "$root" show --no-patch --format=%ct "$tag^{commit}")
export SOURCE_DATE_EPOCH
pack() { # NAME: the folder of that name in $work, as an archive
  tar --create --directory="$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --mode=u+rw,go+r,go-w,a+X \
    --owner=0 --group=0 --numeric-owner "$1" | gzip --no-name --best >"$folder/$1.tar.gz"
}

git -C "$root" archive --prefix="$name/" "$tag" | tar --extract --directory="$work"
pack "$name"
(
  cd "$work/$name"
  cmake --preset release -DLOCKSTEP_CUDA=OFF -DLOCKSTEP_TESTS=OFF "$@" >"$work/log" ||
    { cat "$work/log" >&2 && exit 1; }
  cmake --build --preset release --target lockstep --parallel "$(nproc)"
  cmake --install build/release --prefix "$work/$name-$machine" >"$work/log"
)
pack "$name-$machine"
"$work/$name-$machine/bin/lockstep" --version --json |
  python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)["sbom"], indent=2))' >"$folder/$name-$machine.spdx.json"

cd "$folder"
sha256sum -- *.tar.gz *.spdx.json >SHA256SUMS
ssh-keygen -Y sign -f "$key" -n file SHA256SUMS
ls -l "$folder"
