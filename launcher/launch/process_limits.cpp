// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/process_limits.h"

#include <algorithm>
#include <fmt/format.h>
#include <sys/resource.h>

#include "lockstep/error.h"

namespace lockstep {
namespace {

// mpirun (4.1) has 24 files open and 3 for each rank; a rank 18, one for each other, and its data.
constexpr std::uint64_t kFiles = 64, kFilesPerRank = 4;
// A rank maps about 0.5 GB before it has a model, most of it libraries and arenas of threads.
constexpr std::uint64_t kAddressSpace = std::uint64_t{1} << 30;
// Open MPI's shared memory is a file of 4 MiB for each rank.
constexpr std::uint64_t kFileBytes = std::uint64_t{8} << 20;

std::uint64_t files_for(int ranks) { return kFiles + kFilesPerRank * std::uint64_t(ranks); }

std::uint64_t soft_limit(decltype(RLIMIT_AS) which) {
  rlimit limit{};
  if (getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return ProcessLimits::kNone;
  return limit.rlim_cur;
}

void raise_open_files(std::uint64_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

[[noreturn]] void refuse(const char* what,
                         std::uint64_t limit,
                         std::uint64_t least,
                         int ranks,
                         const std::string& command) {
  throw EnvironmentError(
      fmt::format("{} are limited to {}, which is too little to start {} ranks (at least {})",
                  what,
                  limit,
                  ranks,
                  least),
      command + " in the shell that starts it, or --ranks 1");
}

}  // namespace

void check_limits(const ProcessLimits& limits, int ranks) {
  const std::uint64_t files = files_for(ranks);
  if (limits.open_files < files)
    refuse("open files", limits.open_files, files, ranks, fmt::format("ulimit -n {}", files));
  if (limits.address_space < kAddressSpace)
    refuse("bytes of address space",
           limits.address_space,
           kAddressSpace,
           ranks,
           "ulimit -v unlimited");
  if (limits.file_bytes < kFileBytes)
    refuse("bytes of a file", limits.file_bytes, kFileBytes, ranks, "ulimit -f unlimited");
}

void check_limits(int ranks) {
  raise_open_files(files_for(ranks));
  check_limits({.open_files = soft_limit(RLIMIT_NOFILE),
                .address_space = soft_limit(RLIMIT_AS),
                .file_bytes = soft_limit(RLIMIT_FSIZE)},
               ranks);
}

}  // namespace lockstep
