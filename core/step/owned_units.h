// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/exec/backend.h"
#include "core/plan/flat_space.h"
#include "core/step/owner_exchange.h"
#include "core/step/tensor_norms.h"

namespace lockstep {

/// A tensor that is cut into units: see UnitRange.
struct UnitTensor {
  std::int64_t offset = 0, elems = 0;
  std::int64_t unit = 0;  ///< elements of a unit; `elems` is a multiple
};

/// What a rank owns of the units of tensors. Of a sharded optimizer a unit may be in parts, of
/// several owners. Its squared norm is that of pieces, none of which has two owners; they tell each
/// other the pieces' squares, and all add them in order. So no bit depends on the sharding.
class OwnedUnits {
 public:
  /// Units within a stretch that the rank owns.
  struct Part {
    OwnedStretch stretch;
    std::vector<UnitRange> ranges;
  };

  /// `tensors` in flat order. `owners`: null: the optimizer is not sharded. It must outlive this.
  /// Throws OutOfMemory.
  OwnedUnits(Backend& backend,
             const FlatSpace& space,
             std::span<const UnitTensor> tensors,
             const Ownership& ownership,
             OwnerExchange* owners);

  /// Those of Ownership::stretches() that have units, in their order.
  std::span<const Part> parts() const { return parts_; }
  /// How many units are in parts: UnitRange::norm is below it. Equal on all ranks.
  std::int64_t units_in_parts() const { return std::ssize(ends_); }
  /// norms[UnitRange::norm], in device memory, of units in parts of the flat array `values`.
  /// Enqueued; a collective where there are such units, nothing otherwise.
  void start_norms(const float* values, double* norms);
  /// The same of an array that holds nothing but what the rank owns.
  void start_norms_of_owned(const float* values, double* norms);
  /// Of the norms of units in parts.
  std::size_t bytes() const;

 private:
  void add_parts(const UnitTensor& tensor, std::span<const std::int64_t> chunk_ends);
  void add_pieces(const UnitTensor& tensor, std::int64_t unit);
  void add_ranges(const UnitTensor& tensor,
                  const OwnedStretch& own,
                  std::vector<UnitRange>& ranges) const;

  Backend& backend_;
  std::vector<Part> parts_;
  std::vector<FlatRange> pieces_;       // of units in parts
  std::vector<std::int64_t> ends_;      // of each such unit's pieces
  std::vector<std::int64_t> in_parts_;  // begin of each such unit in the flat space
  std::optional<TensorNorms> piece_norms_;
  std::unique_ptr<DeviceBuffer> squares_;  // of pieces; or null
};

}  // namespace lockstep
