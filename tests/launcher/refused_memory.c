/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded: the kernel refuses memory of REFUSED_BYTES or more, as where somebody else has taken it
 * since the program looked. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>

typedef void* (*Mmap)(void*, size_t, int, int, int, off_t);

void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
  static Mmap next;
  const char* refused = getenv("REFUSED_BYTES");
  if (refused != NULL && bytes >= strtoull(refused, NULL, 10) && (protection & PROT_WRITE) != 0) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "mmap");
  return next(address, bytes, protection, flags, file, offset);
}
