// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/device_probe.h"

#include <cstdlib>
#include <fmt/format.h>

#include "core/base/parameter_names.h"

namespace lockstep {
namespace {

constexpr int kMinCapability = 80;  // bf16 GEMMs

/// CUDA writes 13.0 as 13000.
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

DeviceProbe no_driver(const DeviceFacts& facts) {
  if (facts.kernel_driver)
    return {
        0,
        "the kernel has NVIDIA's driver, but libcuda.so.1 is not found here",
        "in a container: start it with --gpus all (NVIDIA container toolkit); elsewhere install "
        "the driver's user-space libraries"};
  return {0,
          "no NVIDIA driver answers",
          name_parameters("install the NVIDIA driver if this machine has a GPU (nvidia-smi then "
                          "lists it), or use `device` cpu")};
}

DeviceProbe none_visible(const DeviceFacts& facts) {
  const std::string installed =
      facts.installed > 0 ? fmt::format(" ({} in this machine)", facts.installed) : "";
  if (facts.visible_devices)
    return {0,
            fmt::format("no CUDA device is visible{}: CUDA_VISIBLE_DEVICES='{}' hides them",
                        installed,
                        *facts.visible_devices),
            "unset CUDA_VISIBLE_DEVICES, or set it to indices that nvidia-smi -L lists"};
  if (facts.slurm_without_gpu)
    return {0,
            fmt::format("no CUDA device is visible{}: Slurm gave this job none", installed),
            "ask for GPUs: sbatch --gpus-per-node=8 (not --gpus-per-task, which may keep ranks "
            "from each "
            "other's GPUs)"};
  return {0,
          fmt::format("no CUDA device is visible{}", installed),
          name_parameters("nvidia-smi -L lists what the driver sees; or use `device` cpu")};
}

}  // namespace

void set_cuda_variables() {
  // Kernels are loaded before the first step, not when each first runs: what has started does not
  // run out of memory.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

DeviceProbe explain_devices(const DeviceFacts& facts) {
  if (facts.devices > 0 && facts.oldest_capability < kMinCapability)
    return {0,
            fmt::format("a visible GPU has compute capability {}.{}, and {}.{} is needed",
                        facts.oldest_capability / 10,
                        facts.oldest_capability % 10,
                        kMinCapability / 10,
                        kMinCapability % 10),
            name_parameters("leave it out with CUDA_VISIBLE_DEVICES, or use `device` cpu")};
  if (facts.devices > 0) return {facts.devices, "", ""};
  if (facts.driver_version == 0) return no_driver(facts);
  if (facts.driver_version / 1000 < facts.runtime_version / 1000)
    return {0,
            fmt::format("the NVIDIA driver is too old: it does CUDA {}, this program needs {}",
                        version_text(facts.driver_version),
                        version_text(facts.runtime_version)),
            "update the driver, or build Lockstep with an older CUDA toolkit"};
  const bool plain_absence =
      facts.status.empty() || facts.status.starts_with("cudaErrorNoDevice") ||
      (facts.status.starts_with("cudaErrorInvalidDevice") && facts.visible_devices);
  if (plain_absence) return none_visible(facts);
  return {0,
          fmt::format("counting the CUDA devices failed: {}", facts.status),
          "nvidia-smi shows the state of the devices, dmesg the driver's messages"};
}

}  // namespace lockstep
