// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/host/cores.h"
#include "core/host/cpu_list.h"
#include "launcher/doctor/host.h"
#include "lockstep/error.h"

namespace lockstep::doctor {
namespace {

constexpr const char* kAffinity = "affinity";
constexpr const char* kCores = "cores";
constexpr const char* kCpu = "processor";
/// Two fused multiply-adds of eight floats a cycle, what AVX2 processors do; less than this share
/// of it is slow.
constexpr double kFlopsPerCycle = 32, kSlow = 0.4;

/// The text after `key` in the first line of /proc/cpuinfo that starts with it.
std::string value_in(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t first = line.find_first_not_of(" \t:", key.size());
    return first == std::string::npos ? std::string() : line.substr(first);
  }
  return {};
}

double quota(const Environment& environment) {
  return cgroup_cpu_quota(environment.root + "/sys/fs/cgroup",
                          environment.read("/proc/self/cgroup"));
}

/// NUMA nodes of which `threads` has some, of all.
std::pair<int, int> numa_nodes(const Environment& environment, const std::vector<int>& threads) {
  int touched = 0, all = 0;
  for (const std::string& name : environment.list("/sys/devices/system/node")) {
    if (!name.starts_with("node")) continue;
    const std::vector<int> node =
        parse_cpu_list(environment.read_line("/sys/devices/system/node/" + name + "/cpulist"));
    if (node.empty()) continue;
    ++all;
    touched += std::ranges::any_of(
        node, [&](int cpu) { return std::ranges::find(threads, cpu) != threads.end(); });
  }
  return {touched, all};
}

bool has_flag(const std::string& flags, const std::string& name) {
  return (" " + flags + " ").find(" " + name + " ") != std::string::npos;
}

std::string rate_text(double flops) { return fmt::format("{:.0f} GFLOP/s", flops * 1e-9); }

/// Why a core may be slower than it could be, as a setting.
std::string speed_remedy(const Environment& environment) {
  const std::string governor =
      environment.read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (governor == "powersave" || governor == "conservative")
    return "sudo cpupower frequency-set -g performance (the governor is " + governor + ")";
  // What was measured is the thread's own time: others on the core take none of it away.
  return "cpupower frequency-info shows what limits the frequency (power plan, heat, turbo off); "
         "one rank a core (mpirun --bind-to core) keeps its other hardware thread free; in a "
         "virtual machine ask for whole cores";
}

}  // namespace

int usable_cores(const Environment& environment, const std::vector<int>& threads) {
  const int cores = std::max(1, count_cores(threads, environment.root));
  const double limit = quota(environment);
  return limit > 0 && limit < cores ? std::max(1, int(limit)) : cores;
}

Finding check_affinity(const Environment& environment) {
  const std::vector<int> threads = environment.allowed_threads();
  const std::vector<int> online =
      parse_cpu_list(environment.read_line("/sys/devices/system/cpu/online"));
  const auto [touched, nodes] = numa_nodes(environment, threads);
  std::string text =
      fmt::format("CPUs {} of {}", format_cpu_list(threads), format_cpu_list(online));
  if (nodes > 0)
    text += fmt::format(", on {} of {} NUMA node{}", touched, nodes, nodes > 1 ? "s" : "");
  if (const double limit = quota(environment); limit > 0)
    text += fmt::format(", a cgroup's quota of {:g} CPUs", limit);
  const bool launched = environment.local_rank >= 0;
  if (launched && environment.ranks_here > 1 && touched > 1)
    return warn(kAffinity,
                text + ": this rank wanders between memories",
                "mpirun --map-by numa --bind-to numa ... (srun: --cpu-bind=ldoms)");
  return pass(kAffinity, text);
}

Finding check_cores(const Environment& environment, int gpus) {
  const int ranks = environment.ranks_here;
  if (gpus > 0) {
    if (ranks <= gpus)
      return pass(
          kCores,
          fmt::format(
              "{} GPU{} for {} rank{}", gpus, gpus > 1 ? "s" : "", ranks, ranks > 1 ? "s" : ""));
    return warn(
        kCores,
        fmt::format("{} ranks share {} GPU{}: they take turns", ranks, gpus, gpus > 1 ? "s" : ""),
        fmt::format("mpirun -np {} ... (or lockstep train --ranks {})", gpus, gpus));
  }
  const int cores = environment.cores_here > 0
                        ? environment.cores_here
                        : usable_cores(environment, environment.allowed_threads());
  const std::string text = fmt::format(
      "{} core{} for {} rank{}", cores, cores > 1 ? "s" : "", ranks, ranks > 1 ? "s" : "");
  if (ranks <= cores)
    return pass(kCores, ranks > 1 ? text : fmt::format("{}; --ranks up to {}", text, cores));
  return warn(kCores,
              text + ": ranks take turns, and every one waits for the slowest",
              fmt::format("mpirun -np {} ... (or lockstep train --ranks {})", cores, cores));
}

Finding check_cpu(const Environment& environment) {
  const std::string info = environment.read("/proc/cpuinfo");
  const bool arm = !value_in(info, "CPU implementer").empty();  // such processors have no name here
  const std::string name = arm ? "arm64, implementer " + value_in(info, "CPU implementer") +
                                     ", part " + value_in(info, "CPU part")
                               : value_in(info, "model name");
  const std::string flags = value_in(info, arm ? "Features" : "flags");
  if (!arm && (!has_flag(flags, "avx2") || !has_flag(flags, "fma")))
    return fail(kCpu,
                name + " has no AVX2, which Lockstep needs",
                "use another processor; in a virtual machine pass the host's through (qemu: -cpu "
                "host)");
  const bool amx = has_flag(flags, "amx_bf16"), bf16 = amx || has_flag(flags, "avx512_bf16");
  std::string text = fmt::format("{}: {}{}",
                                 name,
                                 arm                          ? "NEON"
                                 : has_flag(flags, "avx512f") ? "AVX-512"
                                                              : "AVX2, no AVX-512",
                                 amx    ? ", bf16 (AMX)"
                                 : bf16 ? ", bf16 (AVX-512)"
                                        : ", no bf16 matmul");
  if (!environment.measure_cpu) return pass(kCpu, text);
  DevicePeaks peaks;
  try {
    peaks = environment.measure_cpu();
  } catch (const Error& error) {
    return fail(
        kCpu, fmt::format("{}; computing on it failed: {}", text, error.what()), error.hint());
  }
  text += "; matmul on one core: fp32 " + rate_text(peaks.fp32_flops);
  if (peaks.bf16_flops > 0) text += ", bf16 " + rate_text(peaks.bf16_flops);
  if (!bf16) text += " (--precision bf16 gains nothing here)";
  double mhz = 0;
  std::istringstream(value_in(info, "cpu MHz")) >> mhz;
  const double expected = kFlopsPerCycle * mhz * 1e6;
  Finding finding = pass(kCpu, text);
  if (!environment.has_onednn)
    finding =
        warn(kCpu,
             text + "; built without oneDNN: matmul and convolutions are plain loops",
             "install oneDNN (Debian: libdnnl-dev) and build again with -DLOCKSTEP_ONEDNN=ON");
  else if (peaks.fp32_flops < kSlow * expected)
    finding =
        warn(kCpu,
             fmt::format("{}; {} at {:.0f} MHz would be usual", text, rate_text(expected), mhz),
             speed_remedy(environment));
  else if (bf16 && peaks.bf16_flops < peaks.fp32_flops)
    finding = warn(kCpu,
                   text + ": bf16 is slower than fp32, though the processor multiplies it",
                   "unset ONEDNN_MAX_CPU_ISA DNNL_MAX_CPU_ISA; or --precision fp32");
  finding.rate = peaks.fp32_flops;
  finding.trait = name;
  return finding;
}

}  // namespace lockstep::doctor
