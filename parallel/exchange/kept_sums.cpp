// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/kept_sums.h"

#include <algorithm>

#include "core/base/check.h"

namespace lockstep {

KeptSums::KeptSums(Backend& backend,
                   std::span<const Bucket> buckets,
                   std::span<const std::int64_t> elems)
    : backend_(backend) {
  LOCKSTEP_ASSERT(buckets.size() == elems.size());
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    parts_.push_back({.bucket_offset = buckets[b].offset, .offset = elems_});
    elems_ += (elems[b] + kSegmentAlignment - 1) / kSegmentAlignment * kSegmentAlignment;
  }
}

void KeptSums::reserve(int count) {
  while (int(places_.size()) < count)
    places_.push_back(
        backend_.allocate(std::size_t(elems_) * sizeof(float), "pending gradient sums"));
}

float* KeptSums::at(int place, const Bucket& bucket) const {
  const auto part = std::ranges::lower_bound(parts_, bucket.offset, {}, &Part::bucket_offset);
  LOCKSTEP_ASSERT(part != parts_.end() && part->bucket_offset == bucket.offset);
  return places_.at(std::size_t(place))->as<float>() + part->offset;
}

}  // namespace lockstep
