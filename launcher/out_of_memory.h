// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "core/base/error.h"
#include "parallel/culprit.h"
#include "parallel/memory_fix.h"
#include "parallel/memory_room.h"
#include "parallel/rank_context.h"

namespace lockstep {

/// OutOfMemory with what people need to go on: the memory table, what was free, who else uses the
/// device, and in the hint the cheapest change with which the training fits.
class ExplainedOutOfMemory final : public OutOfMemory, public Culprit {
 public:
  ExplainedOutOfMemory(const std::string& message,
                       const std::string& hint,
                       std::string details,
                       Culprit culprit)
      : OutOfMemory(message, hint), Culprit(std::move(culprit)), details_(std::move(details)) {}
  /// Whole lines, between message and hint. What differs between ranks that fail alike is here.
  const std::string& details() const { return details_; }

 private:
  std::string details_;
};

/// Where a training gets its memory, and what to say where that lacks.
class TrainingMemory {
 public:
  /// Asks every rank what it has room for: collective, before anything is reserved. `context`
  /// must outlive this.
  TrainingMemory(RankContext& context, PlanRequest request, std::string model);

  /// What the request left open.
  void settle(const TrainOptions& options) { request_.options = options; }

  /// Throws ExplainedOutOfMemory where the plan does not fit what is free on the rank that has the
  /// least, which it names; on all ranks alike. Throws OutOfMemory where it exceeds the
  /// memory_limit.
  void require_room() const;

  /// The room of the rank that has the least; bytes: ~0 where no device says. Equal on every rank.
  MemoryTarget room_target() const;

  /// To be called while an OutOfMemory is being handled: throws it again, explained where it is
  /// not, and as it is where memory does not suffice for that. Not collective.
  [[noreturn]] void rethrow_explained() const;

 private:
  std::string details(const MemoryPlan& plan) const;
  /// `otherwise` where nothing helps that computes the same; empty: then what is missing.
  std::string hint(const MemoryTarget& target, const std::string& otherwise = {}) const;
  std::string hint_for(const OutOfMemory& error, const MemoryPlan& plan) const;

  RankContext& context_;
  PlanRequest request_;
  std::string model_;
  MemoryRoom room_;
};

}  // namespace lockstep
