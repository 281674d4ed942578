#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Starts the program of this archive or wheel. It carries its libraries; of the system it takes the C library and
# MPI. Without MPI it runs on one rank, with a library in MPI's place that says what is missing when it is called.
here=$(dirname "$(readlink -f "$0")")/..
program=$here/libexec/lockstep
mpi='@MPI@'

# The dynamic linker lists what it would load, in a few milliseconds, and runs nothing.
missing=$(LD_TRACE_LOADED_OBJECTS=1 "$program" 2>&1 | grep 'not found')
case $missing in
  '') ;;
  *GLIBC_*)
    echo "error: this program needs glibc @GLIBC@ or later, and this system has an older one:" >&2
    echo "$missing" >&2
    echo "hint: build it here from source, or run it in a container of a newer system" >&2
    exit 3
    ;;
  *)
    if [ "$(echo "$missing" | sed 's/^[[:space:]]*//; s/ => .*//')" = "${mpi:-none}" ]; then
      LD_LIBRARY_PATH=$here/lib/lockstep/without_mpi${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
      export LD_LIBRARY_PATH
    else
      echo "error: this system lacks what the program needs:" >&2
      echo "$missing" >&2
      echo "hint: on a cluster, 'module load' of the MPI that brings the libraries; otherwise unpack the archive again" >&2
      exit 3
    fi
    ;;
esac
exec "$program" "$@"
