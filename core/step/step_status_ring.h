// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/exec/backend.h"
#include "lockstep/step_result.h"

namespace lockstep {

/// Copies the outcomes of steps from the device to the host without a wait: each into the next slot
/// of a ring in host memory, which the host reads a step late, when the device has completed it
/// anyway. Where the device is the CPU, the host reads them at once. Allocates nothing after
/// construction.
class StepStatusRing {
 public:
  explicit StepStatusRing(Backend& backend);
  /// Waits for the copies under way.
  ~StepStatusRing();
  StepStatusRing(const StepStatusRing&) = delete;
  StepStatusRing& operator=(const StepStatusRing&) = delete;

  /// In device memory. Backend::conclude_step() writes it, and updates are predicated on it.
  StepOutcome* outcome() { return outcome_->as<StepOutcome>(); }
  /// Starts the copy of outcome(), which is step `step`'s, and waits at most for the previous copy.
  /// Returns the results that are known by then and have not been taken, in the order of steps; on
  /// a GPU without this step's. Valid until the next call of push() or take_all().
  std::span<const StepResult> push(std::int64_t step, std::int64_t samples);
  /// The results that have not been taken; waits for the last push().
  std::span<const StepResult> take_all();
  /// The result of the last push(), waiting for it, without taking it; `step` -1: there was none.
  const StepResult& newest();

  std::size_t bytes() const { return outcome_->bytes() + slots_->bytes(); }

  /// Waits, drops the results that have not been taken, and resets outcome(), so that updates
  /// happen again.
  void clear_error();

 private:
  static constexpr int kSlots = 3;
  struct alignas(64) Slot {
    StepOutcome outcome;
  };
  struct Pushed {
    std::int64_t step = 0, samples = 0;
    std::unique_ptr<DeviceEvent> event;
  };

  /// Reads the oldest until no more than `left` are under way.
  void read(int left);
  std::span<const StepResult> take();

  Backend& backend_;
  std::unique_ptr<DeviceBuffer> outcome_, slots_;
  std::array<Pushed, kSlots> pushed_;
  int next_ = 0, under_way_ = 0;
  int late_;  // results that may be under way between steps
  std::vector<StepResult> known_, taken_;
  StepResult newest_;
};

}  // namespace lockstep
