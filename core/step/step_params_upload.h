// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "core/exec/backend.h"

namespace lockstep {

/// Copies StepCounters to a device that captures graphs: from slots in host memory, one for each
/// micro-batch that may be under way, to one place in device memory.
class StepParamsUpload {
 public:
  StepParamsUpload(Backend& backend, int slots);

  /// In device memory. Null where the device captures no graphs; send() does nothing then.
  const StepCounters* on_device() const;
  /// Sets the counters of every send() from now on.
  void begin_step(const StepCounters& counters) { counters_ = counters; }
  /// Enqueues the copy. The previous copy from `slot` must be complete.
  void send(std::size_t slot, std::uint64_t first_sample);
  std::size_t bytes() const { return device_->bytes() + slots_->bytes(); }

 private:
  Backend& backend_;
  std::unique_ptr<DeviceBuffer> device_, slots_;
  StepCounters counters_;
};

}  // namespace lockstep
