// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "core/exec/range_marker.h"

namespace lockstep {

enum class RunStage : std::uint8_t;
enum class Phase : std::uint8_t;

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

}  // namespace lockstep
