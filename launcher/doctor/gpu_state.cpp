// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

#include "launcher/doctor/gpu.h"
#include "launcher/gpu_monitor/nvidia_abi.h"

namespace lockstep::doctor {
namespace {

using namespace nvidia;

constexpr const char* kMemory = "GPU memory";
constexpr const char* kEcc = "ECC";
constexpr const char* kClocks = "clocks";
constexpr double kNoticed = 0.05, kMuch = 0.5;  // share of the memory

constexpr const char* kNoGpu = "no GPU to look at";
constexpr const char* kUnmanaged = "the management library libnvidia-ml.so.1 does not answer";

std::uint64_t used_by_others(const Gpu& gpu, std::vector<GpuUser>& others) {
  std::uint64_t own = 0;
  for (const GpuUser& user : gpu.users) {
    if (user.process == getpid())
      own += user.bytes;
    else
      others.push_back(user);
  }
  std::ranges::sort(others, {}, [](const GpuUser& user) { return ~user.bytes; });
  return gpu.used_bytes > own ? gpu.used_bytes - own : 0;
}

std::string users_text(const std::vector<GpuUser>& users) {
  if (users.empty()) return "by processes that cannot be seen from here";
  std::string text = fmt::format("process {}", users[0].process);
  if (!users[0].name.empty()) text += fmt::format(" ({})", users[0].name);
  if (users[0].bytes > 0) text += " holds " + bytes_text(double(users[0].bytes));
  if (users.size() > 1) text += fmt::format(", {} more hold the rest", users.size() - 1);
  return text;
}

std::string memory_remedy(const Gpu& gpu, const std::vector<GpuUser>& users) {
  if (users.empty())
    return fmt::format(
        "nvidia-smi -i {} on the host names them; or leave this GPU out of "
        "CUDA_VISIBLE_DEVICES",
        gpu.address);
  return fmt::format("kill {} (if it may be ended); or leave this GPU out of CUDA_VISIBLE_DEVICES",
                     users[0].process);
}

std::string slowdowns(std::uint64_t bits) {
  std::string text;
  const auto add = [&](std::uint64_t bit, const char* words) {
    if ((bits & bit) != 0) text += (text.empty() ? "" : ", ") + std::string(words);
  };
  add(kHardwareThermal, "it is too hot");
  add(kSoftwareThermal, "it is near its limit of temperature");
  add(kPowerBrake, "the power supply asked for it");
  if (text.empty()) add(kHardwareSlowdown, "heat or power supply");
  return text;
}

}  // namespace

std::vector<Gpu> own_gpus(const Environment& environment, const GpuFacts& facts) {
  if (environment.local_rank < 0 || facts.gpus.empty()) return facts.gpus;
  return {facts.gpus[std::size_t(environment.local_rank) % facts.gpus.size()]};
}

Finding check_gpu_memory(const Environment& environment, const GpuFacts& facts) {
  const std::vector<Gpu> gpus = own_gpus(environment, facts);
  if (gpus.empty()) return none(kMemory, kNoGpu);
  Finding worst = pass(kMemory, "");
  double most = 0;
  std::uint64_t least_free = ~std::uint64_t(0);
  if (std::ranges::all_of(gpus, &Gpu::part))
    return none(kMemory,
                fmt::format("{} in this MIG instance; what others hold of it is not to be seen",
                            bytes_text(double(gpus[0].memory_bytes))));
  for (const Gpu& gpu : gpus) {
    if (!gpu.managed) return none(kMemory, kUnmanaged);
    if (gpu.part) continue;
    std::vector<GpuUser> users;
    const std::uint64_t used = used_by_others(gpu, users);
    const double share = gpu.memory_bytes > 0 ? double(used) / double(gpu.memory_bytes) : 0;
    least_free =
        std::min(least_free, gpu.memory_bytes - std::min(gpu.memory_bytes, gpu.used_bytes));
    if (share < kNoticed || share <= most) continue;
    most = share;
    worst = warn(kMemory,
                 fmt::format("others use {} of {} of GPU {}: {}",
                             bytes_text(double(used)),
                             bytes_text(double(gpu.memory_bytes)),
                             gpu.ordinal,
                             users_text(users)),
                 memory_remedy(gpu, users));
    if (share >= kMuch) worst.verdict = Verdict::fail;
  }
  if (worst.verdict == Verdict::pass)
    worst.text = fmt::format(
        "{} free{}", bytes_text(double(least_free)), gpus.size() > 1 ? " or more on each" : "");
  return worst;
}

Finding check_ecc(const Environment& environment, const GpuFacts& facts) {
  const std::vector<Gpu> gpus = own_gpus(environment, facts);
  if (gpus.empty()) return none(kEcc, kNoGpu);
  bool any = false, counted = true;
  for (const Gpu& gpu : gpus) {
    if (!gpu.managed) return none(kEcc, kUnmanaged);
    if (gpu.repair_failed)
      return fail(kEcc,
                  fmt::format("GPU {} ({}) has bad memory and no spare rows left: it has to be "
                              "replaced",
                              gpu.ordinal,
                              gpu.address),
                  "leave it out of CUDA_VISIBLE_DEVICES until then");
    if (gpu.uncorrected_errors.value_or(0) > 0 || gpu.reset_pending)
      return fail(
          kEcc,
          fmt::format("GPU {} ({}): {} memory errors that could not be corrected{}",
                      gpu.ordinal,
                      gpu.address,
                      gpu.uncorrected_errors.value_or(0),
                      gpu.reset_pending ? "; bad rows wait for a reset to be replaced" : ""),
          fmt::format("sudo nvidia-smi -i {} -r, with nothing running on it; where errors "
                      "come back, replace it",
                      gpu.address));
    if (!gpu.ecc && !gpu.has_no_ecc)
      return none(kEcc, fmt::format("the management library does not say of GPU {}", gpu.ordinal));
    any |= gpu.ecc.has_value();
    counted &= !gpu.ecc || gpu.uncorrected_errors;
    if (gpu.ecc == false)
      return warn(kEcc,
                  fmt::format("GPU {} could detect memory errors, but ECC is switched off: flipped "
                              "bits would go unseen",
                              gpu.ordinal),
                  fmt::format("sudo nvidia-smi -i {} -e 1, then reboot", gpu.address));
  }
  if (!any) return pass(kEcc, "this model has none");
  return pass(kEcc,
              counted ? "on, no uncorrected errors since the driver was loaded"
                      : "on; the errors so far are not said");
}

Finding check_clocks(const Environment& environment, const GpuFacts& facts) {
  const std::vector<Gpu> gpus = own_gpus(environment, facts);
  if (gpus.empty()) return none(kClocks, kNoGpu);
  for (const Gpu& gpu : gpus) {
    if (!gpu.managed) return none(kClocks, kUnmanaged);
    const std::string which = fmt::format("GPU {} ({})", gpu.ordinal, gpu.address);
    const std::string why = slowdowns(gpu.throttled.value_or(0));
    if (!why.empty())
      return warn(kClocks,
                  fmt::format("{} is slowed down: {}", which, why),
                  fmt::format("look after fans, airflow and power cables; nvidia-smi -i {} -q -d "
                              "PERFORMANCE,TEMPERATURE,POWER shows when it is over",
                              gpu.address));
    if (gpu.power_mw < gpu.full_power_mw)
      return warn(
          kClocks,
          fmt::format(
              "{} may draw {} W of its {} W", which, gpu.power_mw / 1000, gpu.full_power_mw / 1000),
          fmt::format("sudo nvidia-smi -i {} -pl {}", gpu.address, gpu.full_power_mw / 1000));
    if (gpu.clock_mhz < gpu.full_clock_mhz)
      return warn(kClocks,
                  fmt::format("{} is set to {} MHz, its model's default is {}",
                              which,
                              gpu.clock_mhz,
                              gpu.full_clock_mhz),
                  fmt::format("sudo nvidia-smi -i {} -rac", gpu.address));
  }
  if (!std::ranges::all_of(gpus, [](const Gpu& gpu) { return gpu.throttled.has_value(); }))
    return none(kClocks, "the management library does not report what throttles them");
  return pass(kClocks, "nothing throttles them");
}

}  // namespace lockstep::doctor
