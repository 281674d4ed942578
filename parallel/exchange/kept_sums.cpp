// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/kept_sums.h"

#include "core/base/check.h"

namespace lockstep {
KeptSums::KeptSums(Backend& backend,
                   std::span<const Bucket> buckets,
                   std::span<const std::int64_t> elems,
                   std::vector<float*> summed)
    : backend_(backend), summed_(std::move(summed)), offsets_(elems.size()) {
  LOCKSTEP_ASSERT(buckets.size() == elems.size());
  LOCKSTEP_ASSERT(summed_.empty() || summed_.size() == elems.size());
  for (const bool apart : {false, true}) {
    for (std::size_t b = 0; b < elems.size(); ++b) {
      if (is_apart(buckets[b]) != apart) continue;
      offsets_[b] = elems_;
      elems_ += (elems[b] + kSegmentAlignment - 1) / kSegmentAlignment * kSegmentAlignment;
    }
    if (!apart) first_ = elems_;
  }
}

void KeptSums::reserve(int count) {
  while (int(places_.size()) < count)
    places_.push_back(backend_.allocate(
        std::size_t(places_.empty() ? first_ : elems_) * sizeof(float), "pending gradient sums"));
}

float* KeptSums::at(int place, const Bucket& bucket) const {
  const auto number = std::size_t(bucket.number);
  if (place == 0 && is_apart(bucket)) return summed_.at(number);
  return places_.at(std::size_t(place))->as<float>() + offsets_.at(number);
}

std::size_t KeptSums::bytes() const {
  std::size_t sum = 0;
  for (const auto& place : places_) sum += place->bytes();
  return sum;
}

}  // namespace lockstep
