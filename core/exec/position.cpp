// SPDX-License-Identifier: Apache-2.0
#include "core/exec/position.h"

#include <string>

namespace lockstep {

std::string_view name_of(RunStage stage) {
  constexpr std::string_view kNames[] = {"start", "training", "evaluation", "saving", "end"};
  return kNames[std::size_t(stage)];
}

std::string_view name_of(Phase phase) {
  constexpr std::string_view kNames[] = {
      "", "loading", "forward", "backward", "exchange", "optimizer"};
  return kNames[std::size_t(phase)];
}

StageRanges::StageRanges(RangeMarker& marker)
    : marker_(marker),
      step_(marker.declare("step")),
      evaluation_(marker.declare("evaluation")),
      checkpoint_(marker.declare("checkpoint")) {
  for (std::size_t i = 1; i < phases_.size(); ++i)
    phases_[i] = marker.declare(Phase(i) == Phase::loading ? std::string("data")
                                                           : std::string(name_of(Phase(i))));
}

void StageRanges::leave_phase() {
  if (in_phase_) marker_.pop();
  in_phase_ = false;
}

void StageRanges::leave_stage() {
  leave_phase();
  if (in_stage_) marker_.pop();
  in_stage_ = false;
}

void StageRanges::begin_step(std::int64_t step) {
  leave_stage();
  marker_.push(step_, step);
  in_stage_ = true;
}

void StageRanges::enter(RunStage stage) {
  leave_stage();
  if (stage != RunStage::evaluation && stage != RunStage::saving) return;
  marker_.push(stage == RunStage::evaluation ? evaluation_ : checkpoint_);
  in_stage_ = true;
}

void StageRanges::enter(Phase phase) {
  leave_phase();
  if (phase == Phase::none) return;
  marker_.push(phases_[std::size_t(phase)]);
  in_phase_ = true;
}

void Position::begin_collective(const CollectiveNote& note) {
  bytes_.store(note.bytes, std::memory_order_relaxed);
  bucket_.store(note.bucket, std::memory_order_relaxed);
  if (note.is_entered) collectives_.fetch_add(1, std::memory_order_relaxed);
  collective_.store(note.name, std::memory_order_relaxed);
}

void Position::end_collective() {
  collective_.store(nullptr, std::memory_order_relaxed);
  tick();
}

PositionNote Position::read() const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  PositionNote note;
  note.stage = stage_.load(kRelaxed);
  note.phase = phase_.load(kRelaxed);
  note.step = step_.load(kRelaxed);
  note.ticks = ticks_.load(kRelaxed);
  note.collectives = collectives_.load(kRelaxed);
  note.collective = {.name = collective_.load(kRelaxed),
                     .bytes = bytes_.load(kRelaxed),
                     .bucket = bucket_.load(kRelaxed)};
  return note;
}

}  // namespace lockstep
