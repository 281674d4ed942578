// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/free_memory.h"

#include <cuda_runtime.h>

#include "kernels/cuda/libraries/dynamic_library.h"
#include "lockstep/error.h"

namespace lockstep::cuda {
namespace {

/// nvmlMemory_t: its header is not needed to build this.
struct MemoryBytes {
  unsigned long long total = 0, free = 0, used = 0;
};

}  // namespace

std::optional<std::uint64_t> free_without_context(int ordinal) {
  char address[32] = {};
  if (cudaDeviceGetPCIBusId(address, sizeof address, ordinal) != cudaSuccess) return std::nullopt;
  try {
    // The driver's own, which is where the dynamic linker looks or nowhere.
    const DynamicLibrary library({"libnvidia-ml.so.1", "NVML", "install the NVIDIA driver"}, {});
    int (*start)() = nullptr;
    int (*stop)() = nullptr;
    int (*find)(const char*, void**) = nullptr;
    int (*read)(void*, MemoryBytes*) = nullptr;
    int (*read_parts)(void*, unsigned*, unsigned*) = nullptr;
    library.find(start, "nvmlInit_v2");
    library.find(stop, "nvmlShutdown");
    library.find(find, "nvmlDeviceGetHandleByPciBusId_v2");
    library.find(read, "nvmlDeviceGetMemoryInfo");
    library.find(read_parts, "nvmlDeviceGetMigMode");
    if (start() != 0) return std::nullopt;
    void* device = nullptr;
    MemoryBytes bytes;
    unsigned divided = 0, later = 0;
    const bool known = find(address, &device) == 0 && read(device, &bytes) == 0;
    // Most kinds of device cannot be divided, and refuse to say whether they are.
    if (known && read_parts(device, &divided, &later) != 0) divided = 0;
    stop();
    if (!known || divided != 0) return std::nullopt;
    return bytes.free;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace lockstep::cuda
