// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/nvml.h"

#include <fmt/format.h>
#include <string>
#include <vector>

#include "launcher/gpu_monitor/nvidia_abi.h"
#include "launcher/gpu_monitor/nvidia_library.h"

namespace lockstep::doctor {
namespace {

using namespace nvidia;

using Handle = struct NvmlDevice*;

constexpr unsigned kMaxLinks = 36;
constexpr unsigned kMaxProcesses = 256;

void read_memory(const Environment& environment,
                 const NvidiaLibrary& nvml,
                 Handle device,
                 Gpu& gpu) {
  NvmlMemory memory;
  if (nvml.call("nvmlDeviceGetMemoryInfo", device, &memory) == 0) {
    gpu.memory_bytes = memory.total;
    gpu.used_bytes = memory.used;
  }
  unsigned count = kMaxProcesses;
  std::vector<NvmlProcess> processes(kMaxProcesses);
  if (nvml.call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, processes.data()) != 0)
    return;
  for (unsigned i = 0; i < count && i < kMaxProcesses; ++i) {
    const NvmlProcess& process = processes[i];
    gpu.users.push_back({int(process.process),
                         environment.read_line(fmt::format("/proc/{}/comm", process.process)),
                         process.bytes == kNotSaid ? 0 : std::uint64_t(process.bytes)});
  }
}

void read_health(const NvidiaLibrary& nvml, Handle device, Gpu& gpu) {
  int now = 0, pending = 0;
  const int status = nvml.call("nvmlDeviceGetEccMode", device, &now, &pending);
  if (status == 0) gpu.ecc = now != 0;
  gpu.has_no_ecc = status == kNvmlNotSupported;
  unsigned long long errors = 0;
  if (nvml.call("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kSinceStart, &errors) == 0)
    gpu.uncorrected_errors = errors;
  unsigned corrected = 0, uncorrected = 0, rows_pending = 0, failed = 0;
  if (nvml.call(
          "nvmlDeviceGetRemappedRows", device, &corrected, &uncorrected, &rows_pending, &failed) ==
      0) {
    gpu.reset_pending = rows_pending != 0;
    gpu.repair_failed = failed != 0;
  }
  int pages_pending = 0;  // what models before the A100 have instead
  if (nvml.call("nvmlDeviceGetRetiredPagesPendingStatus", device, &pages_pending) == 0)
    gpu.reset_pending |= pages_pending != 0;
  int mode = 0;
  if (nvml.call("nvmlDeviceGetComputeMode", device, &mode) == 0)
    gpu.prohibited = mode == kProhibited;
}

void read_clocks(const NvidiaLibrary& nvml, Handle device, Gpu& gpu) {
  unsigned long long reasons = 0;
  // The newer name first.
  if (nvml.call("nvmlDeviceGetCurrentClocksEventReasons", device, &reasons) == 0 ||
      nvml.call("nvmlDeviceGetCurrentClocksThrottleReasons", device, &reasons) == 0)
    gpu.throttled = reasons;
  unsigned limit = 0, full = 0;
  if (nvml.call("nvmlDeviceGetPowerManagementLimit", device, &limit) == 0 &&
      nvml.call("nvmlDeviceGetPowerManagementDefaultLimit", device, &full) == 0) {
    gpu.power_mw = limit;
    gpu.full_power_mw = full;
  }
  unsigned clock = 0, full_clock = 0;
  if (nvml.call("nvmlDeviceGetApplicationsClock", device, kProcessorClock, &clock) == 0 &&
      nvml.call("nvmlDeviceGetDefaultApplicationsClock", device, kProcessorClock, &full_clock) ==
          0) {
    gpu.clock_mhz = clock;
    gpu.full_clock_mhz = full_clock;
  }
}

void read_links(const NvidiaLibrary& nvml, Handle device, Gpu& gpu) {
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    int up = 0;
    if (nvml.call("nvmlDeviceGetNvLinkState", device, link, &up) != 0) break;
    ++gpu.nvlinks;
    gpu.nvlinks_up += up != 0;
  }
  nvml.call("nvmlDeviceGetCurrPcieLinkWidth", device, &gpu.pcie_width);
  nvml.call("nvmlDeviceGetMaxPcieLinkWidth", device, &gpu.full_pcie_width);
}

void read_distances(const NvidiaLibrary& nvml,
                    const std::vector<Handle>& devices,
                    GpuFacts& facts) {
  for (std::size_t i = 0; i < devices.size(); ++i)
    for (std::size_t j = 0; j < devices.size(); ++j) {
      int level = -1;
      const bool both = i != j && devices[i] != nullptr && devices[j] != nullptr;
      if (!both ||
          nvml.call("nvmlDeviceGetTopologyCommonAncestor", devices[i], devices[j], &level) != 0)
        level = -1;
      facts.gpus[i].distance.push_back(level);
    }
}

}  // namespace

void read_management(const Environment& environment, GpuFacts& facts) {
  const NvidiaLibrary nvml(environment.library_folder, "libnvidia-ml.so.1");
  if (!nvml.opened()) return;
  facts.management_status = nvml.call("nvmlInit_v2");
  if (facts.management_status != 0) return;
  facts.management = true;
  unsigned count = 0;
  if (nvml.call("nvmlDeviceGetCount_v2", &count) == 0) facts.managed = int(count);
  std::vector<Handle> devices;
  for (Gpu& gpu : facts.gpus) {
    Handle device = nullptr;
    gpu.managed = nvml.call("nvmlDeviceGetHandleByPciBusId_v2", gpu.address.c_str(), &device) == 0;
    devices.push_back(gpu.managed ? device : nullptr);
    if (!gpu.managed) continue;
    if (!gpu.part) read_memory(environment, nvml, device, gpu);
    read_health(nvml, device, gpu);
    read_clocks(nvml, device, gpu);
    read_links(nvml, device, gpu);
  }
  read_distances(nvml, devices, facts);
  nvml.call("nvmlShutdown");
}

}  // namespace lockstep::doctor
