// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/exec/backend.h"
#include "core/graph/graph.h"
#include "core/plan/flat_space.h"
#include "core/plan/gradient_space.h"
#include "core/step/owned_units.h"
#include "core/step/owner_exchange.h"

namespace lockstep {

/// Adaptive gradient clipping of all trained parameters but the head's (head_parameters()): see
/// UnitClip. Units are the rows of parameters as they are stored, outputs first, and whole vectors.
/// Of a sharded optimizer each rank clips what it owns; OwnedUnits has the norms of units in parts,
/// of weights and of gradients.
class UnitClipping {
 public:
  /// `factor` > 0. `places`: of `gradients`. `owners`: null: the optimizer is not sharded. All must
  /// outlive it. Throws ConfigError: no parameter is left to be clipped; OutOfMemory.
  UnitClipping(Backend& backend,
               const Graph& graph,
               const FlatSpace& space,
               float factor,
               const float* parameters,
               float* gradients,
               const GradientSpace& places,
               const Ownership& ownership,
               OwnerExchange* owners);

  /// Enqueued; where units are in parts a collective.
  void run(const StepOutcome* outcome);
  /// What run() exchanges among owners, alone.
  void exchange_norms();
  /// Of the norms of units in parts.
  std::size_t bytes() const;

 private:
  double* gradient_norms() { return norms_->as<double>() + units_->units_in_parts(); }

  Backend& backend_;
  UnitClip clip_;
  std::optional<OwnedUnits> units_;
  const GradientSpace& places_;
  std::vector<UnitRange> ranges_;        // of all parts of units_
  std::unique_ptr<DeviceBuffer> norms_;  // [2, units in parts]: of weights, of gradients; or null
};

}  // namespace lockstep
