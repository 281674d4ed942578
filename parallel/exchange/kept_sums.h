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
  /// elems: by number of bucket, of the part of each that is kept. `summed`:
  /// GradientSpace::summed(): where sums of the last turn end. Before it they are place 0, so that
  /// this takes no other memory.
  KeptSums(Backend& backend, std::span<const std::int64_t> elems, std::vector<float*> summed = {});

  /// Makes places 0 to `count` - 1. Throws OutOfMemory.
  void reserve(int count);
  /// What place `place` keeps of a bucket: the rank's piece.
  float* at(int place, const Bucket& bucket) const;
  /// Where the rank's piece ends after the last turn: `in_gradients`, unless it has a place apart.
  float* last(const Bucket& bucket, float* in_gradients) const {
    float* const apart = summed_of(std::size_t(bucket.number));
    return apart != nullptr ? apart : in_gradients;
  }
  std::size_t bytes() const;

 private:
  float* summed_of(std::size_t bucket) const { return summed_.empty() ? nullptr : summed_[bucket]; }

  Backend& backend_;
  std::vector<float*> summed_;
  std::vector<std::int64_t> offsets_;   // by bucket, within a place; those without summed_ first
  std::int64_t elems_ = 0, first_ = 0;  // of a place; of place 0
  std::vector<std::unique_ptr<DeviceBuffer>> places_;
};

}  // namespace lockstep
