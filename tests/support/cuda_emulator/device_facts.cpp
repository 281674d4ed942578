// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/cuda_build.h"
#include "kernels/cuda/device/device_probe.h"
#include "kernels/cuda/device/free_memory.h"
#include "tests/support/cuda_emulator/device_memory.h"

namespace lockstep {

DeviceProbe probe_cuda() { return {1, "", ""}; }

std::string cuda_device_id(int) { return {}; }

CudaFacts cuda_build() { return {}; }

std::optional<std::uint64_t> cuda::free_without_context(int) {
  const std::lock_guard lock(emulator::device_in_use());
  return emulator::device_memory().free_bytes();
}

}  // namespace lockstep
