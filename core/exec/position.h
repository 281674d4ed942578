// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "core/profile/range_marker.h"

namespace lockstep {

/// Where a run stands as a whole; decides how long a rank may go without progress.
enum class RunStage : std::uint8_t { start, training, evaluation, saving, end };
/// What a rank does inside a step or an evaluation.
enum class Phase : std::uint8_t { none, loading, forward, backward, exchange, optimizer };

std::string_view name_of(RunStage stage);
std::string_view name_of(Phase phase);

/// A Position as ranges: "step" with its number, "evaluation" and "checkpoint" side by side, and in
/// them the phases "data", "forward", "backward", "exchange", "optimizer".
class StageRanges {
 public:
  explicit StageRanges(RangeMarker& marker);
  void begin_step(std::int64_t step);
  void enter(RunStage stage);
  void enter(Phase phase);

 private:
  void leave_phase();
  void leave_stage();

  RangeMarker& marker_;
  int step_, evaluation_, checkpoint_;  // names
  std::array<int, 6> phases_{};         // by Phase
  bool in_stage_ = false, in_phase_ = false;
};

/// A collective that a rank waits in.
struct CollectiveNote {
  const char* name = nullptr;  ///< a literal, "all-gather"; null: in none
  std::int64_t bytes = 0;      ///< that this rank sends
  std::int64_t bucket = -1;    ///< of the gradient exchange; -1: another collective
  /// No: a wait for a device that is in one, which ranks may come to unequally often.
  bool is_entered = true;
};

/// A Position as read at one time.
struct PositionNote {
  RunStage stage = RunStage::start;
  Phase phase = Phase::none;
  std::int64_t step = 0;          ///< that is being computed, from 1; 0: before the first
  std::uint64_t ticks = 0;        ///< grows with all progress
  std::uint64_t collectives = 0;  ///< entered so far, the one waited in included
  CollectiveNote collective;
};

/// Where this rank stands: what the watchdog, error records and fault injection go by. One for a
/// process. The training thread writes it with relaxed stores, loader threads call tick(), any
/// thread reads; members of a note may belong to neighbouring moments.
class Position {
 public:
  void enter(RunStage stage) {
    if (ranges_) ranges_->enter(stage);
    stage_.store(stage, std::memory_order_relaxed);
    enter(Phase::none);
  }
  void enter(Phase phase) {
    if (ranges_) ranges_->enter(phase);
    phase_.store(phase, std::memory_order_relaxed);
    tick();
    if (at_phase_) at_phase_(read());
  }
  void set_step(std::int64_t step) {
    if (ranges_) ranges_->begin_step(step);
    step_.store(step, std::memory_order_relaxed);
  }
  /// Something was done: a kernel, a sample, a message.
  void tick() { ticks_.fetch_add(1, std::memory_order_relaxed); }

  void begin_collective(const CollectiveNote& note);
  void end_collective();

  PositionNote read() const;
  Phase phase() const { return phase_.load(std::memory_order_relaxed); }

  /// From now on `marker` (null: none) is notified as well, which has to outlive what enters here.
  void mark(RangeMarker* marker) {
    ranges_.reset();
    if (marker != nullptr) ranges_.emplace(*marker);
  }

  /// `action` is called on the training thread at each enter(); for fault injection. Set it before
  /// training begins.
  void at_phase(std::function<void(const PositionNote&)> action) { at_phase_ = std::move(action); }

 private:
  std::atomic<RunStage> stage_{RunStage::start};
  std::atomic<Phase> phase_{Phase::none};
  std::atomic<std::int64_t> step_{0};
  std::atomic<std::uint64_t> ticks_{0}, collectives_{0};
  std::atomic<const char*> collective_{nullptr};
  std::atomic<std::int64_t> bytes_{0}, bucket_{-1};
  std::function<void(const PositionNote&)> at_phase_;
  std::optional<StageRanges> ranges_;
};

/// While it lives, this rank waits in a collective.
class CollectiveScope {
 public:
  CollectiveScope(Position& position, const CollectiveNote& note) : position_(position) {
    position_.begin_collective(note);
  }
  ~CollectiveScope() { position_.end_collective(); }
  CollectiveScope(const CollectiveScope&) = delete;
  CollectiveScope& operator=(const CollectiveScope&) = delete;

 private:
  Position& position_;
};

}  // namespace lockstep
