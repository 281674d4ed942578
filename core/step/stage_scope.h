// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include "core/exec/position.h"

namespace lockstep {

/// While it lives, this rank is in `stage`; afterwards in the previous stage again. An exception
/// that leaves the scope keeps the rank in `stage`, so that failure records name it. Use it on the
/// training thread, between phases.
class StageScope {
 public:
  /// `position` null: the scope does nothing.
  StageScope(Position* position, RunStage stage) : position_(position) {
    if (!position_) return;
    before_ = position_->read().stage;
    position_->enter(stage);
  }
  /// May throw: entering a stage may inject a planned fault.
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
