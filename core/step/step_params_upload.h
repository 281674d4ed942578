// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "core/exec/backend.h"

namespace lockstep {

/// StepCounters on their way to a device that captures graphs: slots in host memory, one for each
/// micro-batch that may be under way, from which one place of the device is written in turn.
class StepParamsUpload {
 public:
  StepParamsUpload(Backend& backend, int slots);

  /// In device memory; null where the device captures no graphs, and send() does nothing.
  const StepCounters* on_device() const;
  /// For every send() from now on.
  void begin_step(const StepCounters& counters) { counters_ = counters; }
  /// Asks for the copy. `slot` must not be under way.
  void send(std::size_t slot, std::uint64_t first_sample);
  std::size_t bytes() const { return device_->bytes() + slots_->bytes(); }

 private:
  Backend& backend_;
  std::unique_ptr<DeviceBuffer> device_, slots_;
  StepCounters counters_;
};

}  // namespace lockstep
