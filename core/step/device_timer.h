// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/exec/backend.h"
#include "lockstep/device_use.h"

namespace lockstep {

/// Measures single steps by the device's own clock. Timed events separate the phases; the host
/// reads them once the step is known to be over, so that it never waits. Allocates nothing after
/// construction. Measures nothing where the backend has no timed events.
class DeviceTimer {
 public:
  /// Max events in a step; steps whose micro-batches need more are not measured.
  static constexpr std::size_t kMaxMarks = 4096;

  /// A step of at most `rounds` micro-batches of this rank, which end `shards` shards.
  DeviceTimer(Backend& backend, std::size_t rounds, std::size_t shards);

  /// Requests that the next step is measured. of() no longer returns earlier steps then.
  void measure_next_step() { wanted_ = true; }
  /// Step `step` (from 0) begins. `whole`: it has a whole global batch; other steps are not
  /// measured. Neither is the first step, as no end of a step precedes it.
  void begin_step(std::int64_t step, bool whole);
  /// Whether measure_next_step() requested the current step, whether or not it can be measured:
  /// equal on ranks that request the same steps.
  bool was_asked() const { return was_asked_; }
  /// Counts the work enqueued since the previous mark, or since the end of the previous step, as
  /// `part`. Does nothing where the step is not measured.
  void mark(DevicePart part);
  /// As mark() with the optimizer; ends the step.
  void end_step();
  /// Excludes the work enqueued since the last step, which is not training's.
  void skip_work();

  /// Seconds of step `step`; nothing unless it is the last measured one. Waits for the device where
  /// the host does not know the step's outcome yet.
  std::optional<DeviceTimes> of(std::int64_t step) const;

 private:
  struct Mark {
    DevicePart part = DevicePart::idle;
    std::unique_ptr<DeviceEvent> event;
  };

  Backend& backend_;
  std::unique_ptr<DeviceEvent> begin_;  // the end of the step before the measured one
  std::unique_ptr<DeviceEvent> end_;    // of the step before; null: nothing is measured
  std::vector<Mark> marks_;
  std::size_t used_ = 0;    // marks of the measured step
  std::int64_t step_ = -1;  // measured; -1: none
  bool wanted_ = false, was_asked_ = false, measures_ = false, has_end_ = false;
};

}  // namespace lockstep
