// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cuda_emulator/status.h"

#include <utility>

namespace lockstep::emulator {
namespace {

struct LastError {
  cudaError_t status = cudaSuccess;   ///< of cudaGetLastError()
  cudaError_t text_of = cudaSuccess;  ///< whose `text` is
  std::string text;
};
thread_local LastError last_error;

}  // namespace

cudaError_t set_status(cudaError_t status, const std::string& text) {
  last_error = {status, status, text};
  return status;
}

}  // namespace lockstep::emulator

using lockstep::emulator::last_error;

cudaError_t cudaGetLastError() { return std::exchange(last_error.status, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error.status; }

const char* cudaGetErrorString(cudaError_t status) {
  if (status != cudaSuccess && status == last_error.text_of) return last_error.text.c_str();
  return status == cudaSuccess ? "no error" : "an error that the emulator does not make";
}

const char* cudaGetErrorName(cudaError_t status) {
  switch (status) {
#define LOCKSTEP_NAME(name) \
  case name:                \
    return #name;
    LOCKSTEP_NAME(cudaSuccess)
    LOCKSTEP_NAME(cudaErrorInvalidValue)
    LOCKSTEP_NAME(cudaErrorMemoryAllocation)
    LOCKSTEP_NAME(cudaErrorInvalidConfiguration)
    LOCKSTEP_NAME(cudaErrorInsufficientDriver)
    LOCKSTEP_NAME(cudaErrorDevicesUnavailable)
    LOCKSTEP_NAME(cudaErrorNoDevice)
    LOCKSTEP_NAME(cudaErrorInvalidDevice)
    LOCKSTEP_NAME(cudaErrorNoKernelImageForDevice)
    LOCKSTEP_NAME(cudaErrorECCUncorrectable)
    LOCKSTEP_NAME(cudaErrorInvalidResourceHandle)
    LOCKSTEP_NAME(cudaErrorNotReady)
    LOCKSTEP_NAME(cudaErrorIllegalAddress)
    LOCKSTEP_NAME(cudaErrorLaunchOutOfResources)
    LOCKSTEP_NAME(cudaErrorAssert)
    LOCKSTEP_NAME(cudaErrorHardwareStackError)
    LOCKSTEP_NAME(cudaErrorMisalignedAddress)
    LOCKSTEP_NAME(cudaErrorLaunchFailure)
    LOCKSTEP_NAME(cudaErrorIllegalState)
    LOCKSTEP_NAME(cudaErrorNotPermitted)
    LOCKSTEP_NAME(cudaErrorStreamCaptureUnsupported)
    LOCKSTEP_NAME(cudaErrorStreamCaptureInvalidated)
    LOCKSTEP_NAME(cudaErrorStreamCaptureMerge)
    LOCKSTEP_NAME(cudaErrorStreamCaptureUnmatched)
    LOCKSTEP_NAME(cudaErrorStreamCaptureUnjoined)
    LOCKSTEP_NAME(cudaErrorStreamCaptureIsolation)
    LOCKSTEP_NAME(cudaErrorStreamCaptureImplicit)
    LOCKSTEP_NAME(cudaErrorCapturedEvent)
    LOCKSTEP_NAME(cudaErrorStreamCaptureWrongThread)
    LOCKSTEP_NAME(cudaErrorUnknown)
#undef LOCKSTEP_NAME
  }
  return "cudaErrorUnknown";
}
