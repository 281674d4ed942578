// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/exec/backend.h"
#include "core/plan/flat_space.h"

namespace lockstep {

/// Memory for the sums that a rank keeps between turns, as owner of a piece of each bucket: Note
/// [Sharded gradients]. Small buckets, which every rank sums, are kept whole.
class KeptSums {
 public:
  /// elems: [buckets], of the part of each that is kept. `summed`: GradientSpace::summed(): where
  /// sums of the last turn end. Before it those of sharded buckets are place 0, so that this takes
  /// no other memory.
  KeptSums(Backend& backend,
           std::span<const Bucket> buckets,
           std::span<const std::int64_t> elems,
           std::vector<float*> summed = {});

  /// Makes places 0 to `count` - 1. Throws OutOfMemory.
  void reserve(int count);
  /// What place `place` keeps of a bucket: the rank's piece.
  float* at(int place, const Bucket& bucket) const;
  /// Where the sum of the rank's piece, `offset` elements into the bucket, ends after the last
  /// turn: there in `gradients`, the bucket's, unless it has a place apart.
  float* last(const Bucket& bucket, float* gradients, std::int64_t offset = 0) const {
    float* const apart = summed_.empty() ? nullptr : summed_[std::size_t(bucket.number)];
    if (apart == nullptr) return gradients + offset;
    return bucket.sharded ? apart : apart + offset;
  }
  std::size_t bytes() const;

 private:
  bool is_apart(const Bucket& bucket) const { return bucket.sharded && !summed_.empty(); }

  Backend& backend_;
  std::vector<float*> summed_;
  std::vector<std::int64_t> offsets_;   // [buckets], within a place; those of summed_ last
  std::int64_t elems_ = 0, first_ = 0;  // of a place; of place 0
  std::vector<std::unique_ptr<DeviceBuffer>> places_;
};

}  // namespace lockstep
