// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/fault_plan.h"
#include "core/exec/position.h"

namespace lockstep {

/// Plays the faults that LOCKSTEP_FAULT plans for this rank: those that hit the process at the
/// phases of `position`, on its thread; those that hit what is computed where their hooks ask for
/// them with take(). At most one lives in a process. Without a plan there is none, and the hooks
/// cost a comparison.
class FaultInjector {
 public:
  /// Told of each fault just before it is played, and once more when the memory has run out that
  /// one takes: taking it is no part of the fault.
  using Told = std::function<void(const std::string&)>;

  /// `position` must outlive it, and calls it from now on. Plays never-join at once.
  FaultInjector(std::vector<PlannedFault> plan, int rank, Position& position, Told told);
  ~FaultInjector();
  FaultInjector(const FaultInjector&) = delete;
  FaultInjector& operator=(const FaultInjector&) = delete;

  /// The fault of `kind` that is due now, which is then played; null: none.
  const PlannedFault* take(FaultKind kind) { return take(kind, position_.read()); }
  /// The same for the step that the caller computes, from 1.
  const PlannedFault* take(FaultKind kind, std::int64_t step);

 private:
  struct Due {
    PlannedFault fault;
    std::int64_t left = 1;
  };
  const PlannedFault* take(FaultKind kind, const PositionNote& note);
  bool is_due(const Due& due, const PositionNote& note) const;
  void tell(const PlannedFault& fault, const PositionNote& note) const;
  void play(const PositionNote& note);

  std::vector<Due> plan_;  ///< of this rank
  Position& position_;
  Told told_;
};

/// The process's; null: no faults are planned.
FaultInjector* fault_injector();

/// fault_injector()->take(kind), null without a player.
inline const PlannedFault* take_fault(FaultKind kind) {
  FaultInjector* const player = fault_injector();
  return player == nullptr ? nullptr : player->take(kind);
}

}  // namespace lockstep
