// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "launcher/doctor/host.h"

namespace lockstep::doctor {
namespace {

constexpr const char* kShared = "/dev/shm";
constexpr const char* kLocked = "locked memory";
constexpr const char* kFiles = "open files";
constexpr const char* kUnreadable = "/proc/self/limits does not tell";
constexpr std::uint64_t kMiB = std::uint64_t(1) << 20;
/// Open MPI's segments take 4 MB a rank; the rest is for what else runs here.
constexpr std::uint64_t kSharedForRank = 16 * kMiB, kSharedBase = 64 * kMiB;
constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

struct Limit {
  std::uint64_t soft = kUnlimited, hard = kUnlimited;
};

/// nullopt: the kernel does not say. A line of /proc/self/limits: "Max open files   1024   524288
/// files".
std::optional<Limit> limit_of(const Environment& environment, std::string_view name) {
  std::istringstream lines(environment.read("/proc/self/limits"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream words(line.substr(name.size()));
    const auto next = [&]() -> std::optional<std::uint64_t> {
      std::string word;
      words >> word;
      if (word == "unlimited") return kUnlimited;
      std::uint64_t value = 0;
      if (std::istringstream(word) >> value) return value;
      return std::nullopt;
    };
    const std::optional<std::uint64_t> soft = next(), hard = next();
    if (soft && hard) return Limit{*soft, *hard};
  }
  return std::nullopt;
}

}  // namespace

Finding check_shared_memory(const Environment& environment) {
  const Container container = container_of(environment);
  const std::uint64_t needed =
      kSharedBase + kSharedForRank * std::uint64_t(std::max(environment.ranks_here, 1));
  const std::uint64_t wanted = (needed / (1024 * kMiB) + 1);
  const std::string remount = fmt::format("sudo mount -o remount,size={}G /dev/shm", wanted);
  const std::string remedy =
      container.kind.empty() ? remount : fmt::format("{}, or {}", container.shm_setting, remount);
  const std::optional<Space> space = environment.space(environment.root + "/dev/shm");
  if (!space)
    return fail(kShared,
                "is missing: ranks of this host have no memory to talk over",
                "sudo mkdir -p /dev/shm && sudo mount -t tmpfs tmpfs /dev/shm");
  const std::string text = fmt::format(
      "{} free of {}", bytes_text(double(space->free)), bytes_text(double(space->bytes)));
  if (space->free >= needed) return pass(kShared, text);
  const std::string lacking = fmt::format("{}; {} rank{} want {}",
                                          text,
                                          environment.ranks_here,
                                          environment.ranks_here == 1 ? "" : "s",
                                          bytes_text(double(needed)));
  if (space->bytes >= needed)
    return warn(
        kShared,
        lacking + ": others have filled it",
        "lockstep doctor --clean; then ls -la /dev/shm, and remove what no program uses any more: "
        "rm -r /dev/shm/{vader,sm}_segment.*");
  return warn(kShared, lacking + ": it is too small", remedy);
}

Finding check_locked_memory(const Environment& environment) {
  const std::optional<Limit> known = limit_of(environment, "Max locked memory");
  if (!known) return none(kLocked, kUnreadable);
  const Limit limit = *known;
  if (limit.soft == kUnlimited) return pass(kLocked, "unlimited");
  const std::string text = bytes_text(double(limit.soft));
  if (environment.list("/sys/class/infiniband").empty())
    return pass(kLocked, text + ", enough without InfiniBand");
  const Container container = container_of(environment);
  const std::string lasting =
      container.kind.empty()
          ? std::string(
                "the line \"* - memlock unlimited\" in /etc/security/limits.conf and a new "
                "login; under Slurm also PropagateResourceLimitsExcept=MEMLOCK")
          : container.memlock_setting;
  return warn(kLocked,
              text + ": InfiniBand needs to lock more, and MPI falls back to slower ways",
              limit.hard == kUnlimited ? "ulimit -l unlimited; for good: " + lasting : lasting);
}

Finding check_open_files(const Environment& environment) {
  const std::optional<Limit> known = limit_of(environment, "Max open files");
  if (!known) return none(kFiles, kUnreadable);
  const Limit limit = *known;
  if (limit.soft == kUnlimited) return pass(kFiles, "unlimited");
  // Rank 0 keeps a connection to every other one, and MPI one or two.
  const std::uint64_t needed =
      std::max<std::uint64_t>(1024, 256 + 4 * std::uint64_t(std::max(environment.ranks, 1)));
  if (limit.soft >= needed) return pass(kFiles, fmt::format("{}", limit.soft));
  const std::string remedy =
      limit.hard >= needed
          ? fmt::format("ulimit -n {}", needed)
          : fmt::format("the line \"* - nofile {}\" in /etc/security/limits.conf and a new login",
                        needed);
  Finding finding = warn(kFiles,
                         fmt::format("{} at a time; data, checkpoints and {} ranks may want {}",
                                     limit.soft,
                                     environment.ranks,
                                     needed),
                         remedy);
  if (limit.soft < 128) finding.verdict = Verdict::fail;
  return finding;
}

}  // namespace lockstep::doctor
