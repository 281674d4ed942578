/* SPDX-License-Identifier: Apache-2.0
 *
 * A library for LD_PRELOAD that lets calls fail, for tests. Environment variables, read once:
 *
 *   FAIL_CALLS  comma-separated groups: malloc (and calloc, realloc, aligned ones), or names of
 *               read, write, open, fsync, rename, mmap, close (their relatives included; io stands
 *               for these seven), mkdir, unlink (rmdir, remove), truncate (fallocate), link, stat, dir
 *               (opendir, readdir)
 *   FAIL_AT     the number of the call that fails, from 1, counted over all groups named; 0: none
 *   FAIL_FOR    how many calls fail from there on (default 1; 0: all)
 *   FAIL_ERRNO  the error (default ENOSPC for calls on files, ENOMEM for memory)
 *   FAIL_HOW    error (default) | short: reads and writes take half of the bytes and succeed |
 *               torn: writes take half of the bytes and then fail | kill: as torn, but the process
 *               is killed; calls that are neither read nor write are not begun
 *   FAIL_RANK   only in the process of this rank of mpirun; none: only outside of mpirun's ranks
 *   FAIL_WITHIN only calls on files whose path has this text are counted; a relative path counts
 *               with the folder that it is relative to
 *   FAIL_WHILE  a file: calls fail while it exists, instead of by number
 *   SLOW_MS     each call that is counted takes so many milliseconds more
 *   FAIL_COUNT  a file that gets the number of calls counted, when the process ends in order
 *   FAIL_LOG    a file that gets a line for each call counted: number, group, path, and "fails"
 *               where it does; processes append
 *   FAIL_TRACE  set: the first call that fails has its callers written to standard error
 *   CLOCK_JUMP  "SECONDS@AFTER": the wall clock is that much off from AFTER seconds on
 *
 * Counted are the calls of the processes whose program is FAIL_PROGRAM (a path; default: all).
 */
#define _GNU_SOURCE
#include "failing_calls.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const char* const kNames[GROUPS] = {"malloc",
                                           "read",
                                           "write",
                                           "open",
                                           "fsync",
                                           "rename",
                                           "mmap",
                                           "close",
                                           "mkdir",
                                           "unlink",
                                           "truncate",
                                           "link",
                                           "stat",
                                           "dir"};

static int counted[GROUPS];
static long fail_at, fail_for = 1, fail_errno, slow_ms, jump_seconds;
static double jump_after;
enum how way;
int within_folder;
static const char *within, *fail_while;
static const char *count_file, *log_file;
static atomic_long calls;
static struct timespec began;
static int ready, traces;

/* glibc's own, which need no look-up: dlsym() itself allocates. */
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

static int begins(const char* text, const char* word) {
  return strncmp(text, word, strlen(word)) == 0;
}

static void read_groups(const char* text) {
  while (text != NULL && *text != '\0') {
    for (int g = 0; g < GROUPS; ++g)
      if (begins(text, kNames[g]) || (begins(text, "io") && g != MALLOC && g <= CLOSE))
        counted[g] = 1;
    text = strchr(text, ',');
    if (text != NULL) ++text;
  }
}

__attribute__((constructor)) static void set_up(void) {
  const char* program = getenv("FAIL_PROGRAM");
  char own[PATH_MAX] = {0};
  if (program != NULL &&
      (readlink("/proc/self/exe", own, sizeof own - 1) < 0 || strcmp(own, program) != 0))
    return;
  const char *value, *rank = getenv("OMPI_COMM_WORLD_RANK");
  if ((value = getenv("FAIL_RANK")) != NULL && strcmp(value, rank != NULL ? rank : "none") != 0)
    return;
  if ((value = getenv("FAIL_HOW")) != NULL)
    way = begins(value, "short")  ? SHORT
          : begins(value, "torn") ? TORN
          : begins(value, "kill") ? KILL
                                  : ERROR;
  if ((value = getenv("FAIL_AT")) != NULL) fail_at = atol(value);
  if ((value = getenv("FAIL_FOR")) != NULL) fail_for = atol(value);
  if ((value = getenv("FAIL_ERRNO")) != NULL) fail_errno = atol(value);
  if ((value = getenv("SLOW_MS")) != NULL) slow_ms = atol(value);
  if ((value = getenv("CLOCK_JUMP")) != NULL) sscanf(value, "%ld@%lf", &jump_seconds, &jump_after);
  within = getenv("FAIL_WITHIN");
  within_folder = within != NULL;
  fail_while = getenv("FAIL_WHILE");
  count_file = getenv("FAIL_COUNT");
  log_file = getenv("FAIL_LOG");
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &began);
  read_groups(getenv("FAIL_CALLS"));
  void* frame;
  traces = getenv("FAIL_TRACE") != NULL && backtrace(&frame, 1) == 1; /* the first one allocates */
  ready = 1;
}

__attribute__((destructor)) static void tell_count(void) {
  if (count_file == NULL) return;
  char text[32];
  const int length = snprintf(text, sizeof text, "%ld\n", atomic_load(&calls));
  const long file = syscall(SYS_openat, AT_FDCWD, count_file, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file < 0) return;
  syscall(SYS_write, file, text, (size_t)length);
  syscall(SYS_close, file);
}

/* Where the open file or folder lies. */
static int path_of(int descriptor, char path[PATH_MAX]) {
  char link[64];
  if (descriptor == AT_FDCWD)
    strcpy(link, "/proc/self/cwd");
  else
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
  path[length > 0 ? length : 0] = '\0';
  return length > 0;
}

static int matches(const char* path) { return within == NULL || strstr(path, within) != NULL; }

static void add_to_log(long number, enum group group, const char* path, int due) {
  if (log_file == NULL) return;
  char line[PATH_MAX + 64];
  const int length = snprintf(line,
                              sizeof line,
                              "%ld %s %s%s\n",
                              number,
                              kNames[group],
                              path != NULL ? path : "-",
                              due ? " fails" : "");
  const long file = syscall(SYS_openat, AT_FDCWD, log_file, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (file < 0) return;
  syscall(SYS_write, file, line, (size_t)length);
  syscall(SYS_close, file);
}

void end_process(void) {
  syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
  for (;;) pause();
}

int fails(enum group group, const char* path) {
  if (!ready || !counted[group]) return 0;
  const int before = errno;
  const long number = atomic_fetch_add(&calls, 1) + 1;
  if (slow_ms > 0) {
    const struct timespec pause = {slow_ms / 1000, slow_ms % 1000 * 1000000};
    syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL);
  }
  const int due = fail_while != NULL ? syscall(SYS_faccessat, AT_FDCWD, fail_while, F_OK) == 0
                                     : fail_at != 0 && number >= fail_at &&
                                           (fail_for == 0 || number < fail_at + fail_for);
  add_to_log(number, group, path, due);
  errno = before;
  if (!due) return 0;
  if (traces && number == fail_at) {
    void* frames[40];
    backtrace_symbols_fd(frames, backtrace(frames, 40), STDERR_FILENO);
  }
  if (way == KILL && group != READ && group != WRITE) end_process();
  errno = fail_errno != 0 ? (int)fail_errno : group == MALLOC || group == MMAP ? ENOMEM : ENOSPC;
  return 1;
}

int fails_on(enum group group, int descriptor) {
  char path[PATH_MAX];
  if (!ready || !counted[group]) return 0;
  const int code = errno;
  const int counts = (path_of(descriptor, path) || within == NULL) && matches(path);
  errno = code;
  return counts && fails(group, path);
}

int fails_at(enum group group, int in, const char* path) {
  char whole[2 * PATH_MAX];
  if (!ready || !counted[group] || path == NULL) return 0;
  const int code = errno;
  if (path[0] != '/' && path_of(in, whole)) {
    const size_t length = strlen(whole);
    snprintf(whole + length, sizeof whole - length, "/%s", path);
    path = whole;
  }
  errno = code;
  return matches(path) && fails(group, path);
}

int fails_at_path(enum group group, const char* path) { return fails_at(group, AT_FDCWD, path); }

void* malloc(size_t bytes) { return fails(MALLOC, NULL) ? NULL : __libc_malloc(bytes); }
void* calloc(size_t n, size_t bytes) {
  return fails(MALLOC, NULL) ? NULL : __libc_calloc(n, bytes);
}
void* realloc(void* old, size_t bytes) {
  return fails(MALLOC, NULL) ? NULL : __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  return fails(MALLOC, NULL) ? NULL : __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** result, size_t alignment, size_t bytes) {
  void* memory = memalign(alignment, bytes);
  if (memory == NULL) return ENOMEM;
  *result = memory;
  return 0;
}

/* Seconds by which the wall clock is off now. */
static long jump(void) {
  if (!ready || jump_seconds == 0) return 0;
  struct timespec now;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  const double passed =
      (double)(now.tv_sec - began.tv_sec) + 1e-9 * (double)(now.tv_nsec - began.tv_nsec);
  return passed >= jump_after ? jump_seconds : 0;
}

int clock_gettime(clockid_t clock, struct timespec* result) {
  const long code = syscall(SYS_clock_gettime, clock, result);
  if (code == 0 && clock == CLOCK_REALTIME) result->tv_sec += jump();
  return (int)code;
}
int gettimeofday(struct timeval* restrict result, void* restrict zone) {
  const long code = syscall(SYS_gettimeofday, result, zone);
  if (code == 0) result->tv_sec += jump();
  return (int)code;
}
time_t time(time_t* result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != NULL) *result = now.tv_sec;
  return now.tv_sec;
}
