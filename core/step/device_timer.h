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

/// Measures single steps by the device's own clock, with timed events between their phases that
/// are read once the step is known to be over: nobody waits. Allocates nothing after construction.
/// Measures nothing where the backend has no timed events.
class DeviceTimer {
 public:
  /// Boundaries of phases in a step; steps of more micro-batches than that leaves room for are not
  /// measured.
  static constexpr std::size_t kMaxMarks = 4096;

  /// A step of at most `rounds` micro-batches of this rank, which end `shards` shards.
  DeviceTimer(Backend& backend, std::size_t rounds, std::size_t shards);

  /// The next step is to be measured. Those before it need not be asked for any more.
  void measure_next_step() { wanted_ = true; }
  /// Step number `step` begins. `whole`: a whole global batch; others are not measured, and neither
  /// is the first one, as it has no step before it.
  void begin_step(std::int64_t step, bool whole);
  /// Whether the step that has begun was to be measured, whether or not it can be: equal on ranks
  /// that ask for the same steps.
  bool was_asked() const { return was_asked_; }
  /// What was asked of the device since the mark before, or since the end of the step before, was
  /// for `part`. Nothing where the step is not measured.
  void mark(DevicePart part);
  /// As mark() with the optimizer; ends the step.
  void end_step();
  /// What was asked for since the last step was not training's.
  void leave_out();

  /// Seconds of that step; nothing where it was not measured, or not as the last one. Waits for it
  /// where the host does not know its outcome yet.
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
