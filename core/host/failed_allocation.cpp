// SPDX-License-Identifier: Apache-2.0
#include "core/host/failed_allocation.h"

#include <atomic>
#include <fmt/format.h>
#include <fstream>
#include <sys/resource.h>
#include <unistd.h>

#include "core/host/host_memory.h"

namespace lockstep {
namespace {

std::atomic<std::size_t> refused_bytes{0};

std::size_t address_space_in_use() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages;
  return pages * std::size_t(sysconf(_SC_PAGESIZE));
}

}  // namespace

void note_failed_allocation(std::size_t bytes) {
  refused_bytes.store(bytes, std::memory_order_relaxed);
}

std::string failed_allocation_text() noexcept {
  try {
    std::string text;
    const auto add = [&](const std::string& part) { text += (text.empty() ? ": " : "; ") + part; };
    if (const std::size_t bytes = refused_bytes.load(std::memory_order_relaxed); bytes > 0)
      add(fmt::format("{} bytes were asked for", bytes));
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      add(fmt::format("of its limit of {} bytes of address space the process uses {}",
                      limit.rlim_cur,
                      address_space_in_use()));
    if (const auto bytes = read_host_memory().free)
      add(fmt::format("the host has {} bytes available", *bytes));
    return text;
  } catch (...) {
    return {};
  }
}

}  // namespace lockstep
