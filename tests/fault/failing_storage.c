/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls on files that fail as failing_calls.c says.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "failing_calls.h"

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
  const size_t part = way == SHORT ? ((bytes) + 1) / 2 : (bytes) / 2;     \
  const ssize_t done = way == ERROR || part == 0 ? 0 : half(__VA_ARGS__); \
  if (way == KILL) end_process();                                         \
  if (way == SHORT) return done;                                          \
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
  return way == SHORT ? 0 : -1;
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
int fallocate(int fd, int mode, off_t from, off_t bytes) {
  if (fails_on(TRUNCATE, fd)) return -1;
  CALL("fallocate", int, (int, int, off_t, off_t), fd, mode, from, bytes);
}
int fallocate64(int fd, int mode, off64_t from, off64_t bytes) {
  if (fails_on(TRUNCATE, fd)) return -1;
  CALL("fallocate64", int, (int, int, off64_t, off64_t), fd, mode, from, bytes);
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
  if (!within_folder ? fails(MMAP, NULL) : fd >= 0 && fails_on(MMAP, fd)) return MAP_FAILED;
  CALL("mmap", void*, (void*, size_t, int, int, int, off_t), at, bytes, may, how, fd, offset);
}
void* mmap64(void* at, size_t bytes, int may, int how, int fd, off64_t offset) {
  if (!within_folder ? fails(MMAP, NULL) : fd >= 0 && fails_on(MMAP, fd)) return MAP_FAILED;
  CALL("mmap64", void*, (void*, size_t, int, int, int, off64_t), at, bytes, may, how, fd, offset);
}
