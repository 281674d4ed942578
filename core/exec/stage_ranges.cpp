// SPDX-License-Identifier: Apache-2.0
#include "core/exec/stage_ranges.h"

#include <string>

#include "core/exec/position.h"

namespace lockstep {

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

}  // namespace lockstep
