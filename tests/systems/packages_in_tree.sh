#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What packages.sh runs inside of a bare tree, in a clone of the source:
#
#   bash tests/systems/packages_in_tree.sh make|debs|archive|wheel|containers FOLDER [CMAKE_OPTION...]
set -euo pipefail
step=$1 folder=$2
shift 2
work=$(mktemp -d)
chmod 755 "$work"

ok() { echo "ok: $*"; }
fail() {
  echo "FAILED: $*" >&2
  exit 1
}
install_packages() {
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends "$@" >"$work/apt.log" 2>&1 ||
    { tail -n 20 "$work/apt.log" >&2 && fail "apt-get install $*"; }
}
the() { # PATTERN: the one file of that name
  local files
  mapfile -t files < <(compgen -G "$folder/$1")
  [[ ${#files[@]} == 1 && -f ${files[0]} ]] || fail "expected one file $folder/$1, found: ${files[*]}"
  echo "${files[0]}"
}
packed() { # FILE: its name and size
  echo "$(basename "$1") ($(du -h --apparent-size "$1" | cut -f 1))"
}

# trains RANKS PROGRAM...: ten steps on digits that the program draws; prints the digest of the weights.
trains() {
  local ranks=$1
  shift
  rm -rf "$work/run"
  "$@" train --ranks "$ranks" --steps 10 --out "$work/run" >"$work/train.log" 2>&1 ||
    { cat "$work/train.log" >&2 && fail "training on $ranks ranks"; }
  python3 - "$work/run/summary.json" "$ranks" <<'CHECK'
import json, sys
summary = json.load(open(sys.argv[1]))
assert summary["ranks"] == int(sys.argv[2]), summary["ranks"]
print(summary["weights_sha256"])
CHECK
}
trains_equally() { # PROGRAM...
  local one two
  one=$(trains 1 "$@")
  two=$(trains 2 "$@")
  [[ $one == "$two" && ${#one} == 64 ]] || fail "1 and 2 ranks: '$one' and '$two'"
  ok "lockstep train: 10 steps on 1 and 2 ranks, equal weights ${one:0:12}"
}

make() {
  bash scripts/install_dependencies.sh
  install_packages dpkg-dev file  # no part of a build; without them no .debs are made
  cmake --preset release -DLOCKSTEP_CUDA=OFF -DLOCKSTEP_TESTS=OFF "$@"
  cmake --build build/release --target lockstep --parallel "${BUILD_JOBS:-$(nproc)}"
  rm -rf "$folder"
  local all=(--debs --archive --wheel --containers)
  scripts/make_packages.sh "${all[@]}" build/release "$folder"
  scripts/make_packages.sh "${all[@]}" build/release "$work/again"
  local file
  for file in "$work/again"/*; do cmp "$file" "$folder/$(basename "$file")"; done
  for file in "$folder"/*; do ok "made twice with equal bytes: $(packed "$file")"; done
}

debs() {
  install_packages "$(the 'lockstep_*.deb')" python3
  ok "installed $(packed "$(the 'lockstep_*.deb')") in $(. /etc/os-release && echo "$PRETTY_NAME")," \
    "depends: $(dpkg-query -W -f '${Depends}' lockstep)"
  trains_equally lockstep
  lockstep doctor --device cpu --ranks 2 --out "$work/run" >"$work/doctor" || [[ $? == 3 ]]
  grep -q 'pass *MPI' "$work/doctor" || { cat "$work/doctor" && fail "doctor: MPI"; }
  ok "lockstep doctor: $(grep -c pass "$work/doctor") lines pass, $(grep -c FAIL "$work/doctor" || true) fail"

  install_packages man-db zsh fish bash-completion
  for page in lockstep lockstep-train; do
    man "$page" 2>/dev/null >"$work/page"
    [[ $(wc -l <"$work/page") -gt 20 ]] || fail "man $page"
    ok "man $page: $(wc -l <"$work/page") lines"
  done
  bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader lockstep || true
    complete -p lockstep' >"$work/bash" || fail "completion of bash"
  zsh -c 'autoload -Uz compinit && compinit -u -d "$1/dump" && [[ $_comps[lockstep] == _lockstep ]]' - "$work" ||
    fail "completion of zsh"
  fish -c 'complete -C "lockstep tr"' | grep -q '^train' || fail "completion of fish"
  ok "completion: bash, zsh and fish find it themselves"
  [[ -s /usr/share/doc/lockstep/copyright && -s /usr/share/doc/lockstep/README.md ]] || fail "documentation"
  ok "/usr/share/doc/lockstep: copyright, README.md, docs"

  install_packages "$(the 'liblockstep-dev_*.deb')" cmake ninja-build g++
  ok "installed $(packed "$(the 'liblockstep-dev_*.deb')"), depends: $(dpkg-query -W -f '${Depends}' liblockstep-dev)"
  cp -r tests/install/consumer "$work/consumer"
  cmake -G Ninja -S "$work/consumer" -B "$work/consumer/build" >"$work/log" 2>&1 || { cat "$work/log" && fail "find_package"; }
  cmake --build "$work/consumer/build" >"$work/log" 2>&1 || { cat "$work/log" && fail "the C++ program"; }
  table >"$work/table.csv"
  "$work/consumer/build/consumer" "$work/table.csv" >"$work/log"
  grep -q '100\.00%' "$work/log" || { cat "$work/log" && fail "the C++ program"; }
  ok "find_package(Lockstep): tests/install/consumer builds and learns its table"

  apt-get remove -qq --yes lockstep liblockstep-dev >/dev/null
  local left
  left=$(find /usr -name '*lockstep*' -not -path '/usr/share/doc*') || true
  [[ -z $left ]] || fail "left after apt-get remove: $left"
  ok "apt-get remove leaves nothing"
}

table() {
  echo length,width,kind
  local row
  for row in {1..60}; do echo "$((10 * (row % 3) + row % 5)),$((10 * (row % 3) + row % 7)),kind$((row % 3))"; done
}

# without_mpi PROGRAM: one rank trains, several are refused.
without_mpi() {
  [[ $(ldconfig -p) != *libmpi.so* ]] || fail "this tree has MPI"
  trains 1 "$1" >/dev/null
  ok "without MPI: lockstep train on one rank"
  local code=0
  OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 "$1" train --steps 2 --out "$work/run2" >"$work/log" 2>&1 || code=$?
  if [[ $code != 3 ]] || ! grep -q 'Open MPI' "$work/log"; then
    cat "$work/log"
    fail "two ranks without MPI: exit code $code"
  fi
  ok "without MPI: as a rank of two, exit code 3: $(head -n 1 "$work/log")"
  code=0
  "$1" train --ranks 2 --steps 2 --out "$work/run3" >"$work/log" 2>&1 || code=$?
  [[ $code == 3 ]] || { cat "$work/log" && fail "--ranks 2 without MPI: exit code $code"; }
  ok "without MPI: --ranks 2, exit code 3: $(head -n 1 "$work/log")"
}

archive() {
  local program
  install_packages python3
  mkdir "$work/any folder"
  tar --extract --file="$(the 'lockstep-*-*.tar.gz')" --directory="$work/any folder"
  program=$(echo "$work/any folder"/lockstep-*/bin/lockstep)
  ok "unpacked $(packed "$(the 'lockstep-*-*.tar.gz')"), $(du -sh "$work/any folder" | cut -f 1), in" \
    "$(. /etc/os-release && echo "$PRETTY_NAME")"
  without_mpi "$program"
  install_packages openmpi-bin
  ok "installed $(mpirun --version | head -n 1)"
  trains_equally "$program"
  mpirun --allow-run-as-root --oversubscribe -np 2 "$program" train --steps 5 --out "$work/run4" >"$work/log" 2>&1 ||
    { cat "$work/log" && fail "mpirun"; }
  ok "mpirun -np 2 lockstep train"
  "$program" --version --json | python3 -c '
import json, sys
root = sys.argv[1]
rows = json.load(sys.stdin)["libraries"]
own = [row["name"] for row in rows if row["file"].startswith(root)]
print("ok: libraries of the archive:", *own)
assert "libdnnl.so.2" in own and not any("libmpi" in name for name in own), own
' "$(cd "$(dirname "$program")/.." && pwd -P)"
}

wheel() {
  install_packages python3-venv openmpi-bin
  useradd --create-home user
  cp "$(the 'lockstep-*.whl')" /home/user/
  cat >"$work/as_user.sh" <<'USER'
set -e
cd
python3 -m venv env
env/bin/pip install --quiet --no-index ./lockstep-*.whl
. env/bin/activate
[ "$(command -v lockstep)" = "$HOME/env/bin/lockstep" ]
lockstep --version
lockstep train --ranks 2 --steps 10 --out run >log 2>&1 || { cat log; exit 1; }
grep '^done' log
pip check
pip uninstall --quiet --yes lockstep
[ -z "$(find env -name '*lockstep*' -not -type d)" ]
USER
  runuser -u user -- env -i HOME=/home/user PATH=/usr/bin:/bin LANG=C.UTF-8 bash "$work/as_user.sh" >"$work/log" 2>&1 ||
    { cat "$work/log" && fail "the wheel"; }
  cat "$work/log"
  ok "pip install $(packed "$(the 'lockstep-*.whl')") as an ordinary user, $(grep '^lockstep ' "$work/log")"
  ok "2 ranks: $(grep '^done' "$work/log")"
  ok "pip uninstall leaves no file"
}

# Builds the Containerfile with a debootstrap of the same Debian in the place of the registry's image.
containers() {
  install_packages buildah debootstrap
  export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
  local image container
  image=$(sed -n 's/^FROM //p' "$folder/Containerfile")
  debootstrap --variant=minbase "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$work/base" >"$work/log" ||
    { tail -n 5 "$work/log" && fail "debootstrap"; }
  cp /etc/apt/apt.conf.d/90host "$work/base/etc/apt/apt.conf.d/" 2>/dev/null || true
  container=$(buildah from scratch)
  buildah add --quiet "$container" "$work/base" / >/dev/null
  buildah commit --quiet "$container" "docker.io/library/$image" >/dev/null
  buildah build --pull-never --tag lockstep "$folder" >"$work/log" 2>&1 || { tail -n 20 "$work/log" && fail "Containerfile"; }
  ok "buildah builds Containerfile, FROM $image (a debootstrap under that name)"
  container=$(buildah from --pull-never localhost/lockstep)
  buildah run "$container" -- lockstep train --ranks 2 --steps 10 --out /tmp/run >"$work/log" 2>&1 ||
    { cat "$work/log" && fail "training in the container"; }
  ok "in the container, 2 ranks: $(grep '^done' "$work/log")"
}

"$step" "$@"
