#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the files of a release from a signed tag, without CUDA, and signs their checksums.
#
#   scripts/release.sh TAG KEY FOLDER [CMAKE_OPTION...]
#
#   TAG      as v0.1.0, signed with KEY
#   KEY      private SSH key of releases, KEY.pub next to it
#   FOLDER   made, and must not be there: source archive, packages (make_packages.sh), SBOM, SHA256SUMS and
#            SHA256SUMS.sig
#
# Called twice, it makes the same archives, byte for byte.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if (($# < 3)); then
  sed -n '3,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
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

SOURCE_DATE_EPOCH=$(git -C "$root" show --no-patch --format=%ct "$tag^{commit}")
export SOURCE_DATE_EPOCH

git -C "$root" archive --prefix="$name/" "$tag" | tar --extract --directory="$work"
"$root/scripts/pack.sh" "$work/$name" "$folder"
(
  cd "$work/$name"
  cmake --preset release -DLOCKSTEP_CUDA=OFF -DLOCKSTEP_TESTS=OFF "$@" >"$work/log" ||
    { cat "$work/log" >&2 && exit 1; }
  cmake --build --preset release --target lockstep --parallel "$(nproc)"
  scripts/make_packages.sh build/release "$folder"
)
"$work/$name/build/release/lockstep" --version --json |
  python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)["sbom"], indent=2))' >"$folder/$name-$machine.spdx.json"

cd "$folder"
files=$(ls)
# shellcheck disable=SC2086  # names without spaces
sha256sum -- $files >SHA256SUMS
ssh-keygen -Y sign -f "$key" -n file SHA256SUMS
ls -l "$folder"
