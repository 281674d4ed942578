// SPDX-License-Identifier: Apache-2.0
#include "launcher/gpu_monitor/nvml.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

#include "launcher/gpu_monitor/nvidia_abi.h"

namespace lockstep {
namespace {

using namespace nvidia;

constexpr const char* kFile = "libnvidia-ml.so.1";
constexpr double kMilliwatts = 1000, kPercent = 100;
constexpr unsigned kMaxLinks = 36, kMaxProcesses = 256;

std::uint32_t reasons_of(std::uint64_t bits) {
  std::uint32_t reasons = 0;
  const auto add = [&](std::uint64_t mask, ClockReason reason) {
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

Nvml::Nvml(const std::string& library_folder) : library_(library_folder, kFile) {
  if (library_.opened()) {
    status_ = library_.call("nvmlInit_v2");
    if (status_ != 0)
      error_ = "the driver's management library does not start: " + words_of(status_);
  } else if (library_.missing()) {
    error_ = fmt::format(
        "the driver's management library {} is not found (in a container: "
        "NVIDIA_DRIVER_CAPABILITIES without utility)",
        kFile);
  } else {
    error_ = "the driver's management library cannot be opened: " + library_.error();
  }
}

Nvml::~Nvml() {
  if (error_.empty()) library_.call("nvmlShutdown");
}

/// "Driver Not Loaded (NVML error 9)"
std::string Nvml::words_of(int status) const {
  const auto words = library_.function<const char*(int)>("nvmlErrorString");
  const char* const text = words != nullptr ? words(status) : nullptr;
  return text != nullptr ? fmt::format("{} (NVML error {})", text, status)
                         : fmt::format("NVML error {}", status);
}

int Nvml::count() const {
  unsigned count = 0;
  return ask("nvmlDeviceGetCount_v2", &count) ? int(count) : 0;
}

Nvml::Device Nvml::find(const std::string& address, std::string* why) const {
  const auto none = [&](const std::string& reason) -> Device {
    if (why != nullptr) *why = reason;
    return nullptr;
  };
  if (address.empty()) return none("CUDA does not say which GPU this is");
  if (!error_.empty()) return none(error_);
  std::string id = address;
  std::ranges::transform(id, id.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  Device device = nullptr;
  const int status = library_.call("nvmlDeviceGetHandleByPciBusId_v2", id.c_str(), &device);
  if (status == 0) return device;
  return none(
      fmt::format("the driver's management library has no GPU {}: {}", id, words_of(status)));
}

bool Nvml::has_parts(Device device) const {
  unsigned now = 0, pending = 0;
  return ask("nvmlDeviceGetMigMode", device, &now, &pending) && now == kPartsEnabled;
}

void Nvml::read_state(Device device, bool part, GpuState& state) const {
  NvmlMemory memory;
  if (!part && ask("nvmlDeviceGetMemoryInfo", device, &memory)) {
    state.memory_bytes = memory.total;
    state.used_bytes = memory.used;
  }
  if (!part) state.users = users(device);
  read_health(device, state);
  read_settings(device, state);
  read_links(device, state);
}

std::vector<GpuUser> Nvml::users(Device device) const {
  unsigned count = kMaxProcesses;
  std::vector<NvmlProcess> processes(kMaxProcesses);
  if (!ask("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, processes.data())) return {};
  processes.resize(std::min(count, kMaxProcesses));
  std::vector<GpuUser> users;
  for (const NvmlProcess& process : processes)
    users.push_back(
        {int(process.process), {}, process.bytes == kNotSaid ? 0 : std::uint64_t(process.bytes)});
  return users;
}

void Nvml::read_health(Device device, GpuState& state) const {
  int now = 0, pending = 0;
  const int status = library_.call("nvmlDeviceGetEccMode", device, &now, &pending);
  if (status == 0) state.ecc = now != 0;
  state.has_no_ecc = status == kNvmlNotSupported;
  unsigned long long errors = 0;
  if (ask("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kSinceStart, &errors))
    state.uncorrected_errors = errors;
  unsigned corrected = 0, uncorrected = 0, rows_pending = 0, failed = 0;
  if (ask("nvmlDeviceGetRemappedRows", device, &corrected, &uncorrected, &rows_pending, &failed)) {
    state.reset_pending = rows_pending != 0;
    state.repair_failed = failed != 0;
  }
  int pages_pending = 0;  // what models before the A100 have instead
  if (ask("nvmlDeviceGetRetiredPagesPendingStatus", device, &pages_pending))
    state.reset_pending |= pages_pending != 0;
}

void Nvml::read_settings(Device device, GpuState& state) const {
  int mode = 0;
  if (ask("nvmlDeviceGetComputeMode", device, &mode)) state.prohibited = mode == kProhibited;
  state.throttled = clock_reasons(device);
  unsigned limit = 0, full = 0;
  if (ask("nvmlDeviceGetPowerManagementLimit", device, &limit) &&
      ask("nvmlDeviceGetPowerManagementDefaultLimit", device, &full)) {
    state.power_mw = limit;
    state.full_power_mw = full;
  }
  unsigned clock = 0, full_clock = 0;
  if (ask("nvmlDeviceGetApplicationsClock", device, kProcessorClock, &clock) &&
      ask("nvmlDeviceGetDefaultApplicationsClock", device, kProcessorClock, &full_clock)) {
    state.clock_mhz = clock;
    state.full_clock_mhz = full_clock;
  }
}

void Nvml::read_links(Device device, GpuState& state) const {
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    int up = 0;
    if (!ask("nvmlDeviceGetNvLinkState", device, link, &up)) break;
    ++state.nvlinks;
    state.nvlinks_up += up != 0;
  }
  library_.call("nvmlDeviceGetCurrPcieLinkWidth", device, &state.pcie_width);
  library_.call("nvmlDeviceGetMaxPcieLinkWidth", device, &state.full_pcie_width);
}

int Nvml::distance(Device from, Device to) const {
  int level = -1;
  if (from == to || from == nullptr || to == nullptr) return -1;
  return ask("nvmlDeviceGetTopologyCommonAncestor", from, to, &level) ? level : -1;
}

std::optional<std::uint64_t> Nvml::clock_reasons(Device device) const {
  unsigned long long bits = 0;
  // The newer name first.
  if (ask("nvmlDeviceGetCurrentClocksEventReasons", device, &bits) ||
      ask("nvmlDeviceGetCurrentClocksThrottleReasons", device, &bits))
    return bits;
  return std::nullopt;
}

/// Without what the driver reserves for itself, where it says so.
bool Nvml::read_memory(Device device, double& used, double& total) const {
  NvmlMemory2 newer;
  newer.version = kNvmlMemory2;
  if (ask("nvmlDeviceGetMemoryInfo_v2", device, &newer)) {
    used = double(newer.total) - double(newer.free) - double(newer.reserved);
    total = double(newer.total);
    return true;
  }
  NvmlMemory memory;  // of drivers before 510: what is reserved counts as used
  if (!ask("nvmlDeviceGetMemoryInfo", device, &memory)) return false;
  used = double(memory.used);
  total = double(memory.total);
  return true;
}

GpuValues Nvml::limits(Device device, bool part) const {
  GpuValues limits;
  double used = 0;
  if (!part) read_memory(device, used, limits[GpuQuantity::memory_bytes]);
  unsigned limit = 0;
  if (ask("nvmlDeviceGetEnforcedPowerLimit", device, &limit))
    limits[GpuQuantity::power_w] = limit / kMilliwatts;
  if (ask("nvmlDeviceGetMaxClockInfo", device, kProcessorClock, &limit))
    limits[GpuQuantity::clock_mhz] = limit;
  if (ask("nvmlDeviceGetMaxClockInfo", device, kMemoryClock, &limit))
    limits[GpuQuantity::memory_clock_mhz] = limit;
  return limits;
}

GpuSample Nvml::sample(Device device, bool part) const {
  GpuSample sample;
  GpuValues& values = sample.values;
  NvmlUtilization shares;
  if (!part && ask("nvmlDeviceGetUtilizationRates", device, &shares)) {
    values[GpuQuantity::busy] = shares.gpu / kPercent;
    values[GpuQuantity::bus_busy] = shares.memory / kPercent;
  }
  double total = 0;
  if (!part) read_memory(device, values[GpuQuantity::memory_bytes], total);
  unsigned number = 0;
  if (ask("nvmlDeviceGetPowerUsage", device, &number))
    values[GpuQuantity::power_w] = number / kMilliwatts;
  if (ask("nvmlDeviceGetClockInfo", device, kProcessorClock, &number))
    values[GpuQuantity::clock_mhz] = number;
  if (ask("nvmlDeviceGetClockInfo", device, kMemoryClock, &number))
    values[GpuQuantity::memory_clock_mhz] = number;
  if (ask("nvmlDeviceGetTemperature", device, kDieTemperature, &number))
    values[GpuQuantity::temperature_c] = number;
  if (const auto bits = clock_reasons(device)) sample.reasons = reasons_of(*bits);
  return sample;
}

}  // namespace lockstep
