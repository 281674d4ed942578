// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/cuda_check.h"

#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep::cuda {
namespace {

std::string hint_for(cudaError_t status) {
  switch (status) {
    case cudaErrorInsufficientDriver:
      return "update the NVIDIA driver, or build with an older CUDA toolkit";
    case cudaErrorNoKernelImageForDevice:
      return "build with -DCMAKE_CUDA_ARCHITECTURES=native on this machine";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
      return "a kernel faulted: LOCKSTEP_SYNC=1 names its operator, compute-sanitizer its mistake; "
             "report what they say";
    case cudaErrorECCUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorHardwareStackError:
      return "the device is broken or taken: nvidia-smi -q shows its state; use another one";
    default:
      return "nvidia-smi shows the state of the device, dmesg the driver's messages";
  }
}

/// A kernel's own mistake, and not the machine's.
bool is_fault(cudaError_t status) {
  return status == cudaErrorIllegalAddress || status == cudaErrorMisalignedAddress ||
         status == cudaErrorLaunchFailure || status == cudaErrorAssert;
}

}  // namespace

void check(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess) return;
  int device = -1;
  cudaGetDevice(&device);
  const std::string message = fmt::format(
      "GPU {}: {}: {} ({})", device, what, cudaGetErrorName(status), cudaGetErrorString(status));
  if (status == cudaErrorMemoryAllocation)
    throw OutOfMemory(message,
                      "nvidia-smi shows who else uses the device; or use a smaller micro-batch");
  if (is_fault(status)) throw Error(message, hint_for(status));
  throw EnvironmentError(message, hint_for(status));
}

}  // namespace lockstep::cuda
