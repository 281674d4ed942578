// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include "core/exec/position.h"

namespace lockstep {

/// While it lives, this rank is in `stage`; then again in the stage before. What it throws leaves
/// the rank in `stage`, for records to say so. On the training thread, between phases.
class StageScope {
 public:
  /// `position`: null where nobody watches.
  StageScope(Position* position, RunStage stage) : position_(position) {
    if (!position_) return;
    before_ = position_->read().stage;
    position_->enter(stage);
  }
  /// What is played at that moment may throw.
  ~StageScope() noexcept(false) {
    if (position_ && std::uncaught_exceptions() == exceptions_) position_->enter(before_);
  }
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

 private:
  Position* position_;
  RunStage before_ = RunStage::start;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace lockstep
