// SPDX-License-Identifier: Apache-2.0
#include "launcher/gpu_monitor/gpu_sampler.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

namespace lockstep {
namespace {

using namespace nvidia;

constexpr const char* kFile = "libnvidia-ml.so.1";
constexpr double kMilliwatts = 1000, kPercent = 100;

/// Whether the library has the function, and it answers.
template <typename Function, typename... Arguments>
bool ask(Function* function, Arguments... arguments) {
  return function != nullptr && function(arguments...) == 0;
}

/// "Driver Not Loaded (NVML error 9)"
std::string words_of(const NvidiaLibrary& library, int status) {
  const auto words = library.function<const char*(int)>("nvmlErrorString");
  const char* const text = words != nullptr ? words(status) : nullptr;
  return text != nullptr ? fmt::format("{} (NVML error {})", text, status)
                         : fmt::format("NVML error {}", status);
}

std::uint32_t reasons_of(unsigned long long bits) {
  std::uint32_t reasons = 0;
  const auto add = [&](unsigned long long mask, ClockReason reason) {
    if ((bits & mask) != 0) reasons |= 1u << unsigned(reason);
  };
  add(kPowerLimit, ClockReason::power_limit);
  add(kHardwareThermal | kSoftwareThermal, ClockReason::heat);
  add(kPowerBrake, ClockReason::power_supply);
  if ((bits & (kHardwareThermal | kPowerBrake)) == 0) add(kHardwareSlowdown, ClockReason::slowdown);
  add(kSyncBoost, ClockReason::sync_boost);
  add(kApplicationClocks, ClockReason::application_clocks);
  add(kDisplayClocks, ClockReason::display_clocks);
  add(kIdle, ClockReason::idle);
  return reasons;
}

}  // namespace

GpuSampler::GpuSampler(const std::string& library_folder, const std::string& address)
    : library_(library_folder, kFile) {
  if (!open(address)) return;
  find_functions();
  read_limits();
}

GpuSampler::~GpuSampler() {
  if (started_) library_.call("nvmlShutdown");
}

bool GpuSampler::open(const std::string& address) {
  if (address.empty()) {
    not_watched_ = "CUDA does not say which GPU this is";
    return false;
  }
  if (!library_.opened()) {
    not_watched_ = library_.missing()
                       ? fmt::format(
                             "the driver's management library {} is not found (in a "
                             "container: NVIDIA_DRIVER_CAPABILITIES without utility)",
                             kFile)
                       : "the driver's management library cannot be opened: " + library_.error();
    return false;
  }
  int status = library_.call("nvmlInit_v2");
  started_ = status == 0;
  if (!started_) {
    not_watched_ = "the driver's management library does not start: " + words_of(library_, status);
    return false;
  }
  std::string id = address;
  std::ranges::transform(id, id.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  status = library_.call("nvmlDeviceGetHandleByPciBusId_v2", id.c_str(), &device_);
  if (status != 0)
    not_watched_ = fmt::format(
        "the driver's management library has no GPU {}: {}", id, words_of(library_, status));
  return status == 0;
}

void GpuSampler::find_functions() {
  utilization_ = library_.function<Query<NvmlUtilization>>("nvmlDeviceGetUtilizationRates");
  memory_ = library_.function<Query<NvmlMemory>>("nvmlDeviceGetMemoryInfo");
  memory2_ = library_.function<Query<NvmlMemory2>>("nvmlDeviceGetMemoryInfo_v2");
  power_ = library_.function<Query<unsigned>>("nvmlDeviceGetPowerUsage");
  clock_ = library_.function<ClockQuery>("nvmlDeviceGetClockInfo");
  temperature_ = library_.function<ClockQuery>("nvmlDeviceGetTemperature");
  // The newer name first.
  for (const char* name :
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"})
    if (reasons_ == nullptr) reasons_ = library_.function<Query<unsigned long long>>(name);
}

void GpuSampler::read_limits() {
  unsigned now = 0, pending = 0;
  part_ =
      library_.call("nvmlDeviceGetMigMode", device_, &now, &pending) == 0 && now == kPartsEnabled;
  double used = 0;
  if (!part_) read_memory(used, limits_[GpuQuantity::memory_bytes]);
  unsigned limit = 0;
  if (library_.call("nvmlDeviceGetEnforcedPowerLimit", device_, &limit) == 0)
    limits_[GpuQuantity::power_w] = limit / kMilliwatts;
  if (library_.call("nvmlDeviceGetMaxClockInfo", device_, kProcessorClock, &limit) == 0)
    limits_[GpuQuantity::clock_mhz] = limit;
  if (library_.call("nvmlDeviceGetMaxClockInfo", device_, kMemoryClock, &limit) == 0)
    limits_[GpuQuantity::memory_clock_mhz] = limit;
}

bool GpuSampler::read_memory(double& used, double& total) const {
  NvmlMemory2 newer;
  newer.version = kNvmlMemory2;
  if (ask(memory2_, device_, &newer)) {
    used = double(newer.total) - double(newer.free) - double(newer.reserved);
    total = double(newer.total);
    return true;
  }
  NvmlMemory memory;  // of drivers before 510: what is reserved counts as used
  if (!ask(memory_, device_, &memory)) return false;
  used = double(memory.used);
  total = double(memory.total);
  return true;
}

GpuSample GpuSampler::sample() const {
  GpuSample sample;
  GpuValues& values = sample.values;
  NvmlUtilization shares;
  if (!part_ && ask(utilization_, device_, &shares)) {
    values[GpuQuantity::busy] = shares.gpu / kPercent;
    values[GpuQuantity::bus_busy] = shares.memory / kPercent;
  }
  double total = 0;
  if (!part_) read_memory(values[GpuQuantity::memory_bytes], total);
  unsigned number = 0;
  if (ask(power_, device_, &number)) values[GpuQuantity::power_w] = number / kMilliwatts;
  if (ask(clock_, device_, kProcessorClock, &number)) values[GpuQuantity::clock_mhz] = number;
  if (ask(clock_, device_, kMemoryClock, &number)) values[GpuQuantity::memory_clock_mhz] = number;
  if (ask(temperature_, device_, kDieTemperature, &number))
    values[GpuQuantity::temperature_c] = number;
  unsigned long long bits = 0;
  if (ask(reasons_, device_, &bits)) sample.reasons = reasons_of(bits);
  return sample;
}

}  // namespace lockstep
