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
  /// elems: [buckets], of the part of each that is kept.
  KeptSums(Backend& backend, std::span<const Bucket> buckets, std::span<const std::int64_t> elems);

  /// Makes places 0 to `count` - 1. Throws OutOfMemory.
  void reserve(int count);
  /// What place `place` keeps of the bucket that begins where `bucket` does: the rank's piece.
  float* at(int place, const Bucket& bucket) const;
  std::size_t bytes() const { return places_.size() * std::size_t(elems_) * sizeof(float); }

 private:
  struct Part {
    std::int64_t bucket_offset = 0, offset = 0;
  };

  Backend& backend_;
  std::vector<Part> parts_;  // by bucket_offset
  std::int64_t elems_ = 0;   // of a place
  std::vector<std::unique_ptr<DeviceBuffer>> places_;
};

}  // namespace lockstep
