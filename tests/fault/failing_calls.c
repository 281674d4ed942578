/* SPDX-License-Identifier: Apache-2.0
 *
 * A library for LD_PRELOAD that lets calls fail, for tests. Environment variables, read once:
 *
 *   FAIL_CALLS  comma-separated groups: malloc (and calloc, realloc, aligned ones), or names of
 *               read, write, open, fsync, rename, mmap, close (their relatives included; io stands
 *               for these seven), mkdir, unlink (rmdir, remove), truncate, link, stat, dir
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
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

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

enum how { ERROR, SHORT, TORN, KILL };

static int counted[GROUPS];
static long fail_at, fail_for = 1, fail_errno, slow_ms, jump_seconds;
static double jump_after;
static enum how how;
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
    how = begins(value, "short")  ? SHORT
          : begins(value, "torn") ? TORN
          : begins(value, "kill") ? KILL
                                  : ERROR;
  if ((value = getenv("FAIL_AT")) != NULL) fail_at = atol(value);
  if ((value = getenv("FAIL_FOR")) != NULL) fail_for = atol(value);
  if ((value = getenv("FAIL_ERRNO")) != NULL) fail_errno = atol(value);
  if ((value = getenv("SLOW_MS")) != NULL) slow_ms = atol(value);
  if ((value = getenv("CLOCK_JUMP")) != NULL) sscanf(value, "%ld@%lf", &jump_seconds, &jump_after);
  within = getenv("FAIL_WITHIN");
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

static void end_process(void) {
  syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
  for (;;) pause();
}

/* Whether this call is to fail; sets errno. */
static int fails(enum group group, const char* path) {
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
  if (how == KILL && group != READ && group != WRITE) end_process();
  errno = fail_errno != 0 ? (int)fail_errno : group == MALLOC || group == MMAP ? ENOMEM : ENOSPC;
  return 1;
}

static int fails_on(enum group group, int descriptor) {
  char path[PATH_MAX];
  if (!ready || !counted[group]) return 0;
  const int code = errno;
  const int counts = (path_of(descriptor, path) || within == NULL) && matches(path);
  errno = code;
  return counts && fails(group, path);
}

/* `in`: what a relative path is relative to. */
static int fails_at(enum group group, int in, const char* path) {
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

static int fails_at_path(enum group group, const char* path) {
  return fails_at(group, AT_FDCWD, path);
}

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

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))
#define CALL(name, result, parameters, ...)                  \
  static result(*next) parameters;                           \
  if (next == NULL) next = NEXT(result(*) parameters, name); \
  return next(__VA_ARGS__)

/* Of a transfer that is to fail, the half that is done all the same. -1: it is over, with errno. */
#define HALF_OF(name, result, parameters, bytes, ...)                     \
  static result(*half) parameters;                                        \
  const int code = errno;                                                 \
  if (half == NULL) half = NEXT(result(*) parameters, name);              \
  const size_t part = how == SHORT ? ((bytes) + 1) / 2 : (bytes) / 2;     \
  const ssize_t done = how == ERROR || part == 0 ? 0 : half(__VA_ARGS__); \
  if (how == KILL) end_process();                                         \
  if (how == SHORT) return done;                                          \
  errno = code;                                                           \
  return -1

ssize_t read(int fd, void* to, size_t bytes) {
  if (fails_on(READ, fd)) {
    HALF_OF("read", ssize_t, (int, void*, size_t), bytes, fd, to, part);
  }
  CALL("read", ssize_t, (int, void*, size_t), fd, to, bytes);
}
ssize_t pread(int fd, void* to, size_t bytes, off_t at) {
  if (fails_on(READ, fd)) {
    HALF_OF("pread", ssize_t, (int, void*, size_t, off_t), bytes, fd, to, part, at);
  }
  CALL("pread", ssize_t, (int, void*, size_t, off_t), fd, to, bytes, at);
}
ssize_t pread64(int fd, void* to, size_t bytes, off64_t at) {
  if (fails_on(READ, fd)) {
    HALF_OF("pread64", ssize_t, (int, void*, size_t, off64_t), bytes, fd, to, part, at);
  }
  CALL("pread64", ssize_t, (int, void*, size_t, off64_t), fd, to, bytes, at);
}
ssize_t write(int fd, const void* from, size_t bytes) {
  if (fails_on(WRITE, fd)) {
    HALF_OF("write", ssize_t, (int, const void*, size_t), bytes, fd, from, part);
  }
  CALL("write", ssize_t, (int, const void*, size_t), fd, from, bytes);
}
ssize_t pwrite(int fd, const void* from, size_t bytes, off_t at) {
  if (fails_on(WRITE, fd)) {
    HALF_OF("pwrite", ssize_t, (int, const void*, size_t, off_t), bytes, fd, from, part, at);
  }
  CALL("pwrite", ssize_t, (int, const void*, size_t, off_t), fd, from, bytes, at);
}
ssize_t pwrite64(int fd, const void* from, size_t bytes, off64_t at) {
  if (fails_on(WRITE, fd)) {
    HALF_OF("pwrite64", ssize_t, (int, const void*, size_t, off64_t), bytes, fd, from, part, at);
  }
  CALL("pwrite64", ssize_t, (int, const void*, size_t, off64_t), fd, from, bytes, at);
}
/* Half of it: the first piece that has bytes. */
static ssize_t write_half(int fd, const struct iovec* from, int count) {
  for (int i = 0; i < count; ++i)
    if (from[i].iov_len > 0) {
      const size_t bytes = from[i].iov_len;
      HALF_OF("write", ssize_t, (int, const void*, size_t), bytes, fd, from[i].iov_base, part);
    }
  return how == SHORT ? 0 : -1;
}
ssize_t writev(int fd, const struct iovec* from, int count) {
  if (fails_on(WRITE, fd)) return write_half(fd, from, count);
  CALL("writev", ssize_t, (int, const struct iovec*, int), fd, from, count);
}
int fsync(int fd) {
  if (fails_on(FSYNC, fd)) return -1;
  CALL("fsync", int, (int), fd);
}
int fdatasync(int fd) {
  if (fails_on(FSYNC, fd)) return -1;
  CALL("fdatasync", int, (int), fd);
}
int close(int fd) {
  if (fails_on(CLOSE, fd)) {
    const int code = errno;
    syscall(SYS_close, fd); /* Linux closes it all the same. */
    errno = code;
    return -1;
  }
  CALL("close", int, (int), fd);
}
int fclose(FILE* stream) {
  const int failed = fails_on(CLOSE, fileno(stream)), code = errno;
  static int (*next)(FILE*);
  if (next == NULL) next = NEXT(int (*)(FILE*), "fclose");
  const int result = next(stream);
  if (failed) errno = code;
  return failed ? EOF : result;
}
int rename(const char* from, const char* to) {
  if (fails_at_path(RENAME, from)) return -1;
  CALL("rename", int, (const char*, const char*), from, to);
}
int renameat(int from_in, const char* from, int to_in, const char* to) {
  if (fails_at(RENAME, from_in, from)) return -1;
  CALL("renameat", int, (int, const char*, int, const char*), from_in, from, to_in, to);
}

int renameat2(int from_in, const char* from, int to_in, const char* to, unsigned flags) {
  if (fails_at(RENAME, from_in, from)) return -1;
  CALL("renameat2",
       int,
       (int, const char*, int, const char*, unsigned),
       from_in,
       from,
       to_in,
       to,
       flags);
}
int link(const char* from, const char* to) {
  if (fails_at_path(LINK, from)) return -1;
  CALL("link", int, (const char*, const char*), from, to);
}
int linkat(int from_in, const char* from, int to_in, const char* to, int flags) {
  if (fails_at(LINK, from_in, from)) return -1;
  CALL("linkat", int, (int, const char*, int, const char*, int), from_in, from, to_in, to, flags);
}
int mkdir(const char* path, mode_t mode) {
  if (fails_at_path(MKDIR, path)) return -1;
  CALL("mkdir", int, (const char*, mode_t), path, mode);
}
int mkdirat(int in, const char* path, mode_t mode) {
  if (fails_at(MKDIR, in, path)) return -1;
  CALL("mkdirat", int, (int, const char*, mode_t), in, path, mode);
}
int unlink(const char* path) {
  if (fails_at_path(UNLINK, path)) return -1;
  CALL("unlink", int, (const char*), path);
}
int unlinkat(int in, const char* path, int flags) {
  if (fails_at(UNLINK, in, path)) return -1;
  CALL("unlinkat", int, (int, const char*, int), in, path, flags);
}
int rmdir(const char* path) {
  if (fails_at_path(UNLINK, path)) return -1;
  CALL("rmdir", int, (const char*), path);
}
int remove(const char* path) {
  if (fails_at_path(UNLINK, path)) return -1;
  CALL("remove", int, (const char*), path);
}
int ftruncate(int fd, off_t bytes) {
  if (fails_on(TRUNCATE, fd)) return -1;
  CALL("ftruncate", int, (int, off_t), fd, bytes);
}
int ftruncate64(int fd, off64_t bytes) {
  if (fails_on(TRUNCATE, fd)) return -1;
  CALL("ftruncate64", int, (int, off64_t), fd, bytes);
}
int truncate(const char* path, off_t bytes) {
  if (fails_at_path(TRUNCATE, path)) return -1;
  CALL("truncate", int, (const char*, off_t), path, bytes);
}

#define STATUS_OF_PATH(name, type)                                \
  int name(const char* restrict path, struct type* restrict to) { \
    if (fails_at_path(STAT, path)) return -1;                     \
    CALL(#name, int, (const char*, struct type*), path, to);      \
  }
STATUS_OF_PATH(stat, stat)
STATUS_OF_PATH(stat64, stat64)
STATUS_OF_PATH(lstat, stat)
STATUS_OF_PATH(lstat64, stat64)
int fstat(int fd, struct stat* to) {
  if (fails_on(STAT, fd)) return -1;
  CALL("fstat", int, (int, struct stat*), fd, to);
}
int fstat64(int fd, struct stat64* to) {
  if (fails_on(STAT, fd)) return -1;
  CALL("fstat64", int, (int, struct stat64*), fd, to);
}
int fstatat(int in, const char* restrict path, struct stat* restrict to, int flags) {
  if (fails_at(STAT, in, path)) return -1;
  CALL("fstatat", int, (int, const char*, struct stat*, int), in, path, to, flags);
}
int fstatat64(int in, const char* restrict path, struct stat64* restrict to, int flags) {
  if (fails_at(STAT, in, path)) return -1;
  CALL("fstatat64", int, (int, const char*, struct stat64*, int), in, path, to, flags);
}

DIR* opendir(const char* path) {
  if (fails_at_path(DIRECTORY, path)) return NULL;
  CALL("opendir", DIR*, (const char*), path);
}
DIR* fdopendir(int fd) {
  if (fails_on(DIRECTORY, fd)) return NULL;
  CALL("fdopendir", DIR*, (int), fd);
}
struct dirent* readdir(DIR* stream) {
  if (fails_on(DIRECTORY, dirfd(stream))) return NULL;
  CALL("readdir", struct dirent*, (DIR*), stream);
}
struct dirent64* readdir64(DIR* stream) {
  if (fails_on(DIRECTORY, dirfd(stream))) return NULL;
  CALL("readdir64", struct dirent64*, (DIR*), stream);
}

#define OPEN_MODE(how)                     \
  mode_t mode = 0;                         \
  if ((how) & (O_CREAT | __O_TMPFILE)) {   \
    va_list rest;                          \
    va_start(rest, how);                   \
    mode = (mode_t)va_arg(rest, unsigned); \
    va_end(rest);                          \
  }

int open(const char* path, int how, ...) {
  OPEN_MODE(how)
  if (fails_at_path(OPEN, path)) return -1;
  CALL("open", int, (const char*, int, ...), path, how, mode);
}
int open64(const char* path, int how, ...) {
  OPEN_MODE(how)
  if (fails_at_path(OPEN, path)) return -1;
  CALL("open64", int, (const char*, int, ...), path, how, mode);
}
int openat(int in, const char* path, int how, ...) {
  OPEN_MODE(how)
  if (fails_at(OPEN, in, path)) return -1;
  CALL("openat", int, (int, const char*, int, ...), in, path, how, mode);
}
int openat64(int in, const char* path, int how, ...) {
  OPEN_MODE(how)
  if (fails_at(OPEN, in, path)) return -1;
  CALL("openat64", int, (int, const char*, int, ...), in, path, how, mode);
}
FILE* fopen(const char* path, const char* how) {
  if (fails_at_path(OPEN, path)) return NULL;
  CALL("fopen", FILE*, (const char*, const char*), path, how);
}
FILE* fopen64(const char* path, const char* how) {
  if (fails_at_path(OPEN, path)) return NULL;
  CALL("fopen64", FILE*, (const char*, const char*), path, how);
}
void* mmap(void* at, size_t bytes, int may, int how, int fd, off_t offset) {
  if (within == NULL ? fails(MMAP, NULL) : fd >= 0 && fails_on(MMAP, fd)) return MAP_FAILED;
  CALL("mmap", void*, (void*, size_t, int, int, int, off_t), at, bytes, may, how, fd, offset);
}
void* mmap64(void* at, size_t bytes, int may, int how, int fd, off64_t offset) {
  if (within == NULL ? fails(MMAP, NULL) : fd >= 0 && fails_on(MMAP, fd)) return MAP_FAILED;
  CALL("mmap64", void*, (void*, size_t, int, int, int, off64_t), at, bytes, may, how, fd, offset);
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
