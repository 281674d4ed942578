// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/fault_plan.h"
#include "core/exec/position.h"

namespace lockstep {

/// Injects the faults that LOCKSTEP_FAULT plans for this rank. Faults of the process are injected
/// when `position` enters a phase, on its thread; faults of computed values where a hook calls
/// take(). At most one injector lives in a process. Without a plan there is none, and a hook costs
/// a comparison.
class FaultInjector {
 public:
  /// Called just before each fault is injected. A fault that exhausts memory calls it once more
  /// when the memory has run out, since allocating it takes time.
  using Report = std::function<void(const std::string&)>;

  /// `position` must outlive it, and calls it from now on. Injects never-join at once.
  FaultInjector(std::vector<PlannedFault> plan, int rank, Position& position, Report report);
  ~FaultInjector();
  FaultInjector(const FaultInjector&) = delete;
  FaultInjector& operator=(const FaultInjector&) = delete;

  /// The fault of `kind` that is due now, which the caller then injects; null: none.
  const PlannedFault* take(FaultKind kind) { return take(kind, position_.read()); }
  /// The same for the step that the caller computes; steps count from 1.
  const PlannedFault* take(FaultKind kind, std::int64_t step);

 private:
  struct Due {
    PlannedFault fault;
    std::int64_t left = 1;
  };
  const PlannedFault* take(FaultKind kind, const PositionNote& note);
  bool is_due(const Due& due, const PositionNote& note) const;
  void report(const PlannedFault& fault, const PositionNote& note) const;
  void inject(const PositionNote& note);

  std::vector<Due> plan_;  ///< of this rank
  Position& position_;
  Report report_;
};

/// The injector of this process; null: no faults are planned.
FaultInjector* fault_injector();

/// fault_injector()->take(kind), null without an injector.
inline const PlannedFault* take_fault(FaultKind kind) {
  FaultInjector* const injector = fault_injector();
  return injector == nullptr ? nullptr : injector->take(kind);
}

}  // namespace lockstep
