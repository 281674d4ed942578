// SPDX-License-Identifier: Apache-2.0
#include "core/host/process_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <malloc.h>
#include <string>
#include <sys/resource.h>

namespace lockstep {
namespace {

/// 0 where the kernel does not tell.
std::uint64_t status_bytes(const std::string& wanted) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(wanted)) continue;
    const std::size_t digits = std::min(line.find_first_of("0123456789"), line.size());
    std::uint64_t kib = 0;
    std::from_chars(line.data() + digits, line.data() + line.size(), kib);
    return kib * 1024;
  }
  return 0;
}

}  // namespace

ResidentMemory resident_memory() {
  return {status_bytes("RssAnon:"), status_bytes("RssFile:") + status_bytes("RssShmem:")};
}

std::uint64_t peak_resident_bytes() {
  if (const std::uint64_t peak = status_bytes("VmHWM:"); peak > 0) return peak;
  // Counts also what the process was before it became this program.
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? std::uint64_t(usage.ru_maxrss) * 1024 : 0;
}

bool forget_peak_resident() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;  // see proc(5)
  return file.good();
}

void return_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace lockstep
