// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <functional>

#include "kernels/cuda/device/device.h"
#include "lockstep/shape.h"

namespace lockstep::cuda {

/// Memory of the device for the length of a measurement.
class TrialMemory {
 public:
  /// Throws OutOfMemory.
  explicit TrialMemory(std::size_t bytes);
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;
  ~TrialMemory();

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const { return bytes_; }
  /// With values in [-1, 1), the same for a seed: with zeros a device needs less power, and runs
  /// faster than it will.
  void fill(DType type, std::uint64_t seed = 1);

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

/// Waits for what cudaMemcpy() copies to memory of the device, which may be under way when it
/// returns, from pageable memory as from the device: streams of a Device would not wait for it.
void wait_for_copies();

/// Of the device, now.
std::size_t free_device_bytes();

/// Seconds by the device's clock that `work` takes, which it enqueues on `device.compute`.
double device_seconds(const Device& device, const std::function<void()>& work);

/// Of the first `bytes` of `memory` once `device.compute` is done with them: all of them where they
/// are few, otherwise parts from all over.
std::uint64_t device_hash(const Device& device, const TrialMemory& memory, std::size_t bytes);

}  // namespace lockstep::cuda
