// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/exec/backend.h"
#include "core/graph/graph.h"
#include "core/plan/flat_space.h"
#include "core/step/owner_exchange.h"
#include "core/step/tensor_norms.h"

namespace lockstep {

/// Adaptive gradient clipping of all trained parameters but the head's (head_parameters()): see
/// UnitClip. Units are the rows of parameters as they are stored, outputs first, and whole vectors.
/// Of a sharded optimizer each rank clips what it owns. A unit in parts, of several owners, is
/// squared in pieces, none of which has two owners; they tell each other the pieces' squares, and
/// all add them in order. So no bit depends on the sharding.
class UnitClipping {
 public:
  /// `factor` > 0. `owners`: null: the optimizer is not sharded. All must outlive it. Throws
  /// ConfigError: no parameter is left to be clipped; OutOfMemory.
  UnitClipping(Backend& backend,
               const Graph& graph,
               const FlatSpace& space,
               float factor,
               const float* parameters,
               float* gradients,
               const Ownership& ownership,
               OwnerExchange* owners);

  /// Enqueued; where units are in parts a collective.
  void run(const StepOutcome* outcome);
  /// What run() exchanges among owners, alone.
  void exchange_norms();
  /// Of the norms of units in parts.
  std::size_t bytes() const;

 private:
  struct Tensor {
    std::int64_t offset, elems, unit;
  };
  void add_parts(const Tensor& tensor, std::span<const std::int64_t> chunk_ends);
  void add_pieces(const Tensor& tensor, std::int64_t unit);
  void add_ranges(const Tensor& tensor, const OwnedStretch& own);

  Backend& backend_;
  UnitClip clip_;
  std::vector<UnitRange> ranges_;       // that this rank owns
  std::vector<FlatRange> pieces_;       // of units in parts
  std::vector<std::int64_t> ends_;      // of each such unit's pieces
  std::vector<std::int64_t> in_parts_;  // begin of each such unit in the flat space
  std::optional<TensorNorms> piece_norms_;
  std::unique_ptr<DeviceBuffer> squares_, norms_;  // of pieces, of units in parts; or null
};

}  // namespace lockstep
