// SPDX-License-Identifier: Apache-2.0
#include "parallel/process_memory.h"

#include <fstream>
#include <malloc.h>
#include <string>

namespace lockstep {
namespace {

// getrusage() would count what the process was before it became this program.
std::uint64_t status_bytes(const std::string& wanted) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(wanted)) return std::stoull(line.substr(wanted.size())) * 1024;
  return 0;
}

}  // namespace

ResidentMemory resident_memory() {
  return {status_bytes("RssAnon:"), status_bytes("RssFile:") + status_bytes("RssShmem:")};
}

std::uint64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

void return_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace lockstep
