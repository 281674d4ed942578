// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "core/exec/backend.h"
#include "kernels/cuda/device/cuda_check.h"

namespace lockstep::cuda {

class CudaEvent final : public DeviceEvent {
 public:
  /// `flags`: cudaEventDefault, with a time, or cudaEventDisableTiming.
  explicit CudaEvent(unsigned flags) { check(cudaEventCreateWithFlags(&event_, flags), "event"); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent() override { cudaEventDestroy(event_); }

  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "event"); }
  void hold_up(cudaStream_t stream) const {
    check(cudaStreamWaitEvent(stream, event_, 0), "order of streams");
  }
  void wait() override { check(cudaEventSynchronize(event_), "waiting for the device"); }
  bool done() override {
    const cudaError_t status = cudaEventQuery(event_);
    if (status != cudaErrorNotReady)
      check(status, "waiting for the device");
    else
      cudaGetLastError();  // as which it counts
    return status == cudaSuccess;
  }
  double seconds_since(const DeviceEvent& earlier) const override {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, static_cast<const CudaEvent&>(earlier).event_, event_),
          "time of an event");
    return 1e-3 * double(ms);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace lockstep::cuda
