// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lockstep/error.h"
#include "lockstep/rank_context.h"
#include "parallel/memory/memory_advisor.h"
#include "parallel/memory/memory_headroom.h"
#include "parallel/session/explained_out_of_memory.h"

namespace lockstep {

/// Where a training gets its memory, and what to say where that lacks.
class TrainingMemory {
 public:
  /// Asks every rank what it has room for: collective, before anything is reserved. `context`
  /// must outlive this. Throws ConfigError as plan_batch().
  TrainingMemory(RankContext& context, PlanRequest request, std::string model);

  /// What the request left open.
  void resolve(const TrainOptions& options) { request_.options = options; }

  /// Throws ExplainedOutOfMemory where a rank's plan does not fit what is free there; all ranks do,
  /// alike, and name the one that lacks most. Throws OutOfMemory where a plan exceeds the
  /// memory_limit. Collective. Returns rank 0's plan.
  MemoryPlan require_headroom() const;

  /// The room of the rank that has the least, beyond any device where none says. Equal on all
  /// ranks.
  MemoryTarget headroom_target() const;

  /// To be called while an OutOfMemory is being handled: throws it again, explained where it is
  /// not, and as it is where memory does not suffice for that. Not collective: where others may
  /// wait for this rank, it looks for a change that fits no longer than kAdviceTime.
  [[noreturn]] void rethrow_explained() const;

 private:
  static constexpr std::chrono::seconds kAdviceTime{1};

  MemoryTarget target_in(const MemoryHeadroom& room) const;
  std::string details(const MemoryPlan& plan, const MemoryHeadroom& room) const;
  /// What to do where `request` does not fit `target`, of which some may be gone when it is tried.
  std::string headroom_hint(const PlanRequest& request, const MemoryTarget& target) const;
  /// `otherwise` where nothing helps that computes the same.
  std::string hint_for(const PlanRequest& request,
                       const MemoryPlan& plan,
                       const std::string& otherwise) const;

  RankContext& context_;
  PlanRequest request_;
  std::string model_;
  MemoryHeadroom own_, least_;  // of this rank; of the rank that has the least
};

}  // namespace lockstep
