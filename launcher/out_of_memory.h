// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "launcher/job.h"
#include "parallel/culprit.h"
#include "parallel/memory_fix.h"
#include "parallel/memory_room.h"

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

/// Of `room`, what a plan may take: the rest is for what no plan counts, such as stacks, the heap's
/// own bookkeeping, MPI's buffers and what libraries take when they first run.
std::uint64_t plannable_bytes(const MemoryRoom& room);

/// What a training has its memory from, and what to say where it lacks.
class TrainingMemory {
 public:
  /// The ranks of `request` and where its device is are found out. `job` must outlive this.
  TrainingMemory(Job& job, PlanRequest request, std::string model);

  /// Throws ExplainedOutOfMemory where the plan does not fit what is free on the rank that has the
  /// least, which it names; on all ranks alike, before anything is reserved. Collective.
  void require_room();

  /// To be called while an OutOfMemory is being handled: throws it again, explained where it is
  /// not, and as it is where memory does not suffice for that. Not collective.
  [[noreturn]] void rethrow_explained() const;

 private:
  bool exceeds_limit(const MemoryPlan& plan) const;
  MemoryTarget room_target(const MemoryRoom& room) const;
  MemoryTarget target_after(const MemoryPlan& plan) const;
  std::string details(const MemoryPlan& plan) const;
  std::string hint(const MemoryTarget& target) const;

  Job& job_;
  PlanRequest request_;
  std::string model_;
  std::optional<MemoryRoom> room_;
};

}  // namespace lockstep
