#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command on another Debian or on Ubuntu: in a tree made by debootstrap that holds git and nothing else,
# in a clone of what is committed here.
#
#   bash tests/systems/debian.sh [--suite NAME] [--root DIR] [--mirror URL] [--keep] [--bind DIR] [COMMAND...]
#
#   --suite NAME   trixie (Debian 13, the default), bookworm (Debian 12), forky (Debian testing), jammy (Ubuntu 22.04)
#                  or noble (Ubuntu 24.04), whose archive needs the package ubuntu-keyring here
#   --root DIR     where trees are kept between calls (default: ~/.cache/lockstep/systems)
#   --mirror URL   of the distribution (default: the one that apt uses here, Ubuntu's own for Ubuntu)
#   --keep         go on in the tree of the last call with --keep: its packages and its build folder
#   --bind DIR     is there under the same name, to read and to write
#   COMMAND...     run in the clone (default: bash examples/quickstart.sh)
#
# The bare tree is made once, about a minute; every call copies it, and with --keep the copy stays. A
# compiler cache next to the trees serves all calls. Proxies, certificates and name servers are this
# machine's, and LOCKSTEP_TEST_DATA is there under the same name. Needs root and debootstrap.
#
# All mounts and processes are in namespaces of their own: they end with this script, however it ends.
set -euo pipefail

fail() {
  echo "debian.sh: $1" >&2
  exit "${2:-2}"
}

source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
suite=trixie
root=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/systems
mirror=
bind=
keep=false
while (($#)); do
  case "$1" in
    -h | --help)
      sed -n '3,21s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --suite | --root | --mirror | --bind)
      (($# > 1)) || fail "$1 needs a value"
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    --keep)
      keep=true
      shift
      ;;
    -*) fail "unknown option '$1' (known: --suite, --root, --mirror, --keep, --bind)" ;;
    *) break ;;
  esac
done
case $suite in
  trixie | bookworm | forky) recipe=sid components=main ;;
  jammy | noble)
    recipe=gutsy components=main,universe
    mirror=${mirror:-http://archive.ubuntu.com/ubuntu}
    ;;
  *) fail "unknown suite '$suite' (known: trixie, bookworm, forky, jammy, noble)" ;;
esac
(($#)) || set -- bash examples/quickstart.sh

((EUID == 0)) || fail "debootstrap and chroot need root: sudo bash tests/systems/debian.sh ..." 3
for tool in debootstrap unshare chroot git; do
  command -v "$tool" >/dev/null || fail "$tool is missing: apt-get install debootstrap util-linux git" 3
done

# One call at a time works on a suite's trees.
mkdir -p "$root"
root=$(cd "$root" && pwd)
exec {lock}>"$root/$suite.lock"
flock --nonblock "$lock" || {
  echo "debian.sh: waiting for another call on $suite" >&2
  flock "$lock"
}

child=
work=
clean_up() {
  trap - EXIT
  if [[ -n $child ]]; then
    kill -KILL "$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || true
  fi
  rm -rf --one-file-system "$root/$suite.part"
  [[ -z $work ]] || $keep || rm -rf --one-file-system "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# in_namespaces COMMAND...: with mounts and processes of its own, which end with it.
in_namespaces() {
  unshare --mount --pid --fork --kill-child "$@" <&0 {lock}>&- &
  child=$!
  local code=0
  wait "$child" || code=$?
  child=
  return $code
}

# What apt, git and others need of this machine to reach the network.
copy_network() {
  local tree=$1
  cp --dereference /etc/resolv.conf "$tree/etc/resolv.conf"
  cp /etc/hosts "$tree/etc/hosts"
  if command -v apt-config >/dev/null; then
    apt-config dump Acquire::http Acquire::https Acquire::Check-Valid-Until Acquire::Check-Date \
      >"$tree/etc/apt/apt.conf.d/90host"
  fi
  if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
    mkdir -p "$tree/usr/local/share/ca-certificates"
    cp /usr/local/share/ca-certificates/*.crt "$tree/usr/local/share/ca-certificates/"
    chroot "$tree" update-ca-certificates >/dev/null 2>&1
  fi
  [[ ! -e /etc/pip.conf ]] || cp /etc/pip.conf "$tree/etc/pip.conf"
}

bare=$root/$suite
if [[ ! -d $bare ]]; then
  if [[ -z $mirror ]] && command -v apt-get >/dev/null; then
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 2>/dev/null |
      grep -v security | head -1 || true)
  fi
  mirror=${mirror:-http://deb.debian.org/debian}
  echo "debian.sh: making $bare from $mirror" >&2
  rm -rf --one-file-system "$bare.part"
  # By name, as debootstrap knows no suites that are younger than itself: of Debian's and of Ubuntu's, all are links to these.
  script=/usr/share/debootstrap/scripts/$recipe
  in_namespaces debootstrap --force-check-gpg --variant=minbase --include=git,ca-certificates --components="$components" \
    "$suite" "$bare.part" "$mirror" "$script" >"$bare.log" 2>&1 || {
    tail -n 5 "$bare.log" >&2
    fail "debootstrap failed; all it said is in $bare.log" 3
  }
  copy_network "$bare.part"
  rm -f "$bare.part"/var/cache/apt/archives/*.deb
  mv "$bare.part" "$bare"
fi

if $keep; then work=$root/$suite.kept; else work=$root/$suite.work; fi
$keep || rm -rf --one-file-system "$work"
if [[ ! -d $work ]]; then
  rm -rf --one-file-system "$work.part"
  cp --archive "$bare" "$work.part"
  mv "$work.part" "$work"
fi

# The clone, at the commit that is checked out here.
[[ -z $(git -C "$source" status --porcelain --untracked-files=no) ]] ||
  echo "debian.sh: warning: what is not committed here is not in the clone" >&2
commit=$(git -C "$source" rev-parse HEAD)
if [[ -d $work/root/lockstep/.git ]]; then
  git -C "$work/root/lockstep" fetch --quiet "$source" "$commit"
  git -C "$work/root/lockstep" checkout --quiet --force "$commit"
else
  git clone --quiet --no-hardlinks "$source" "$work/root/lockstep"
  git -C "$work/root/lockstep" checkout --quiet --force "$commit"
fi
mkdir -p "$root/$suite.ccache" "$work/root/.cache/ccache"
# Process ids begin at 1 in every call: Open MPI 5 refuses to start where a killed mpirun of the same id left its folder.
rm -rf "$work"/tmp/prte*.* "$work"/tmp/ompi.*

variables=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
  CCACHE_DIR=/root/.cache/ccache)
for name in TERM BUILD_JOBS CI LOCKSTEP_TEST_DATA http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
  [[ -z ${!name:-} ]] || variables+=("$name=${!name}")
done

# Run inside of the namespaces: TREE CACHE DATA BIND WORDS... of the command with its variables.
enter='
set -e
tree=$1 cache=$2 data=$3 bind=$4
shift 4
mount --make-rprivate /
mount --bind "$tree" "$tree"  # so that the tree is a mount point, which buildah changes
mount -t proc proc "$tree/proc"
mount -t sysfs -o ro sysfs "$tree/sys"
mount --rbind /dev "$tree/dev"
mount --bind "$cache" "$tree/root/.cache/ccache"
if [ -n "$data" ]; then
  mkdir -p "$tree$data"
  mount --bind -o ro "$data" "$tree$data"
fi
if [ -n "$bind" ]; then
  mkdir -p "$tree$bind"
  mount --bind "$bind" "$tree$bind"
fi
exec chroot "$tree" /usr/bin/env -i "$@"'

data=
[[ ! -d ${LOCKSTEP_TEST_DATA:-} ]] || data=$(cd "$LOCKSTEP_TEST_DATA" && pwd)
if [[ -n $bind ]]; then
  [[ -d $bind ]] || fail "--bind $bind: there is no such folder"
  bind=$(cd "$bind" && pwd)
fi
code=0
in_namespaces bash -c "$enter" enter "$work" "$root/$suite.ccache" "$data" "$bind" "${variables[@]}" \
  bash -c 'cd /root/lockstep && exec "$@"' in-the-clone "$@" || code=$?
((code <= 128)) || echo "debian.sh: a signal ended the command: $((code - 128))" >&2
exit $code
