// SPDX-License-Identifier: Apache-2.0
#include "core/plan/ownership.h"

#include <algorithm>

#include "core/base/check.h"

namespace lockstep {

bool has_two_levels(int ranks, int ranks_per_host) {
  return ranks_per_host > 1 && ranks_per_host < ranks && ranks % ranks_per_host == 0;
}

Bucket chunk_of(const Bucket& bucket, int index, int ranks) {
  LOCKSTEP_ASSERT(bucket.sharded && bucket.elems % ranks == 0);
  const std::int64_t elems = bucket.elems / ranks;
  return {bucket.offset + index * elems, elems, true};
}

int owned_index(const FlatSpace& space, int rank) {
  if (!has_two_levels(space.ranks, space.ranks_per_host)) return rank;
  const int hosts = space.ranks / space.ranks_per_host;
  return rank % space.ranks_per_host * hosts + rank / space.ranks_per_host;
}

Bucket owned_chunk(const FlatSpace& space, const Bucket& bucket, int rank) {
  return chunk_of(bucket, owned_index(space, rank), space.ranks);
}

Ownership::Ownership(const FlatSpace& space, int rank) {
  const auto add = [&](std::int64_t offset, std::int64_t elems, bool everywhere) {
    if (elems == 0) return;
    OwnedStretch next{
        .offset = offset, .local = this->elems(), .elems = elems, .everywhere = everywhere};
    divides_ |= !everywhere;
    if (!stretches_.empty() && stretches_.back().end() == offset &&
        stretches_.back().everywhere == everywhere)
      stretches_.back().elems += elems;
    else
      stretches_.push_back(next);
  };
  std::int64_t end = 0;
  for (const Bucket& bucket : space.buckets) {
    const Bucket own = bucket.sharded ? owned_chunk(space, bucket, rank) : bucket;
    add(own.offset, own.elems, !bucket.sharded);
    end = bucket.offset + bucket.elems;
  }
  add(end, space.elems - end, true);  // frozen
}

std::vector<OwnedStretch> Ownership::within(std::int64_t offset, std::int64_t elems) const {
  std::vector<OwnedStretch> parts;
  auto stretch = std::ranges::upper_bound(stretches_, offset, {}, &OwnedStretch::end);
  for (; stretch != stretches_.end() && stretch->offset < offset + elems; ++stretch) {
    const std::int64_t begin = std::max(offset, stretch->offset);
    const std::int64_t end = std::min(offset + elems, stretch->end());
    parts.push_back({.offset = begin,
                     .local = stretch->local + begin - stretch->offset,
                     .elems = end - begin,
                     .everywhere = stretch->everywhere});
  }
  return parts;
}

}  // namespace lockstep
