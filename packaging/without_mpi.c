// SPDX-License-Identifier: Apache-2.0
// Stands in MPI's place where a system has none, so that one rank can train; packaging/bundle.py adds a function
// for each that the program calls.
#include <stdio.h>
#include <unistd.h>

__attribute__((unused)) static int answer_no(int* flag) {
  *flag = 0;
  return 0;
}

__attribute__((unused)) static int end(const char* function) {
  enum { kEnvironmentError = 3 };
  fprintf(stderr,
          "error: several ranks need the MPI library " MPI_LIBRARY ", which was not found (%s)\n"
          "hint: install Open MPI 4 or 5 (Debian: apt install openmpi-bin), or 'module load' it; with another MPI "
          "build Lockstep from source\n",
          function);
  fflush(stderr);
  _exit(kEnvironmentError);
}

