#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs a folder as TO/NAME.tar.gz, with neither order, owner, rights nor times of this machine.
#
#   SOURCE_DATE_EPOCH=SECONDS scripts/pack.sh FOLDER TO
set -euo pipefail
name=$(basename "$1")
tar --create --directory="$(dirname "$1")" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --mode=u+rw,go+r,go-w,a+X \
  --owner=0 --group=0 --numeric-owner "$name" | gzip --no-name --best >"$2/$name.tar.gz"
