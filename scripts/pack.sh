#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs a folder as TO/NAME.tar.gz or .tar.xz, with neither order, owner, rights nor times of this machine.
#
#   SOURCE_DATE_EPOCH=SECONDS scripts/pack.sh FOLDER TO [gz|xz]
#
# gz is the default. xz finds what files far apart have in common, and takes 2 GiB of memory.
set -euo pipefail
name=$(basename "$1") kind=${3:-gz}
case $kind in
  gz) compress=(gzip --no-name --best) ;;
  # With more threads xz cuts the input in blocks, and by the memory of the machine it would shrink the dictionary.
  xz) compress=(xz --threads=1 --no-adjust "--lzma2=preset=6,dict=192MiB") ;;
  *)
    echo "pack.sh: unknown kind '$kind' (known: gz, xz)" >&2
    exit 2
    ;;
esac
tar --create --directory="$(dirname "$1")" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --mode=u+rw,go+r,go-w,a+X \
  --owner=0 --group=0 --numeric-owner "$name" | "${compress[@]}" >"$2/$name.tar.$kind"
