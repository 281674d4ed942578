/* SPDX-License-Identifier: Apache-2.0
 *
 * What decides whether a call fails: failing_calls.c. The calls on files: failing_storage.c. Their
 * names are hidden from the programs that the library is loaded into.
 */
#pragma once

#define HIDDEN __attribute__((visibility("hidden")))

enum group {
  MALLOC,
  READ,
  WRITE,
  OPEN,
  FSYNC,
  RENAME,
  MMAP,
  CLOSE,
  MKDIR,
  UNLINK,
  TRUNCATE,
  LINK,
  STAT,
  DIRECTORY,
  GROUPS
};
/* FAIL_HOW. */
enum how { ERROR, SHORT, TORN, KILL };

extern HIDDEN enum how way;
/* Whether FAIL_WITHIN is set. */
extern HIDDEN int within_folder;

/* Whether this call is to fail; sets errno. `path`: of its file; null: none. */
HIDDEN int fails(enum group group, const char* path);
/* The same for an open file. */
HIDDEN int fails_on(enum group group, int descriptor);
/* The same for a path; `in`: what a relative one is relative to. */
HIDDEN int fails_at(enum group group, int in, const char* path);
HIDDEN int fails_at_path(enum group group, const char* path);
/* As SIGKILL does. */
HIDDEN void end_process(void);
