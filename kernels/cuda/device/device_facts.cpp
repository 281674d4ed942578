// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cuda_runtime.h>
#include <filesystem>
#include <fmt/format.h>

#include "kernels/cuda/device/cuda_build.h"
#include "kernels/cuda/device/device_probe.h"

namespace lockstep {
namespace {

int listed_gpus() {
  std::error_code none;
  int count = 0;
  for (std::filesystem::directory_iterator gpus("/proc/driver/nvidia/gpus", none), end;
       !none && gpus != end;
       gpus.increment(none))
    ++count;
  return count;
}

}  // namespace

DeviceProbe probe_cuda() {
  set_cuda_variables();
  DeviceFacts facts;
  facts.runtime_version = CUDART_VERSION;
  cudaDriverGetVersion(&facts.driver_version);
  const cudaError_t status = cudaGetDeviceCount(&facts.devices);
  if (status != cudaSuccess) {
    facts.devices = 0;
    facts.status = fmt::format("{}: {}", cudaGetErrorName(status), cudaGetErrorString(status));
    cudaGetLastError();
  }
  for (int i = 0; i < facts.devices; ++i) {
    int major = 0, minor = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, i);
    const int capability = 10 * major + minor;
    if (i == 0 || capability < facts.oldest_capability) facts.oldest_capability = capability;
  }
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) facts.visible_devices = visible;
  std::error_code none;
  facts.kernel_driver = std::filesystem::exists("/proc/driver/nvidia/version", none);
  facts.installed = listed_gpus();
  facts.slurm_without_gpu = std::getenv("SLURM_JOB_ID") != nullptr &&
                            std::getenv("SLURM_JOB_GPUS") == nullptr &&
                            std::getenv("SLURM_STEP_GPUS") == nullptr;
  return explain_devices(facts);
}

std::string cuda_device_id(int ordinal) {
  char text[32] = {};
  return cudaDeviceGetPCIBusId(text, sizeof text, ordinal) == cudaSuccess ? text : "";
}

CudaFacts cuda_build() { return {"", CUDART_VERSION, cuda::built_architectures()}; }

}  // namespace lockstep
