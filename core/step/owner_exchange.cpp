// SPDX-License-Identifier: Apache-2.0
#include "core/step/owner_exchange.h"

#include <algorithm>

namespace lockstep {

OwnerExchange::OwnerExchange(Backend& backend,
                             Communicator& communicator,
                             const FlatSpace& space,
                             float* gradients)
    : backend_(backend),
      communicator_(communicator),
      space_(space),
      gradients_(gradients),
      rank_(communicator.rank()),
      ranks_(communicator.size()),
      ownership_(space, rank_),
      blocks_(std::size_t(ranks_)),
      none_(std::size_t(ranks_)) {
  for (const Bucket& bucket : space.buckets)
    if (bucket.sharded) sharded_.push_back(bucket);
  communicator_.reserve_requests(int(std::max<std::size_t>(1, sharded_.size())));
  requests_.reserve(sharded_.size());
}

void OwnerExchange::all_gather(float* flat) {
  for (const Bucket& bucket : sharded_) {
    for (int r = 0; r < ranks_; ++r) {
      const Bucket chunk = owned_chunk(bucket, r, ranks_);
      blocks_[std::size_t(r)] = {chunk.offset - bucket.offset, chunk.elems};
    }
    bytes_sent_ += std::uint64_t(blocks_[0].elems) * sizeof(float) * std::uint64_t(ranks_ - 1);
    requests_.push_back(communicator_.start_all_gather(flat + bucket.offset, blocks_));
  }
  for (CommRequestPtr& request : requests_) request->wait();
  requests_.clear();
}

void OwnerExchange::warm_up() {
  const std::uint64_t sent = bytes_sent_;
  all_gather(gradients_);
  bytes_sent_ = sent;
}

void OwnerExchange::all_gather(double* values, std::span<const std::int64_t> counts) {
  constexpr std::int64_t kFloats = sizeof(double) / sizeof(float);
  std::int64_t offset = 0;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    blocks_[r] = {offset * kFloats, counts[r] * kFloats};
    offset += counts[r];
  }
  bytes_sent_ +=
      std::uint64_t(counts[std::size_t(rank_)]) * sizeof(double) * std::uint64_t(ranks_ - 1);
  communicator_.start_all_gather(reinterpret_cast<float*>(values), blocks_)->wait();
}

void OwnerExchange::collect(const float* owned, float* host) {
  const auto copy = [&](std::int64_t offset, const float* from, std::int64_t elems) {
    backend_.copy_to_host(host + offset, from, std::size_t(elems) * sizeof(float));
  };
  for (const Bucket& bucket : sharded_) {
    const Bucket own = owned_chunk(bucket, rank_, ranks_);
    const float* const own_part = owned + ownership_.within(own.offset, own.elems).front().local;
    std::ranges::fill(blocks_, CommBlock{});
    if (rank_ != 0) {
      blocks_[0] = {0, own.elems};
      communicator_.start_all_to_all(own_part, blocks_, nullptr, none_)->wait();
      continue;
    }
    for (int r = 1; r < ranks_; ++r) blocks_[std::size_t(r)] = {r * own.elems, own.elems};
    float* const received = gradients_ + bucket.offset;
    communicator_.start_all_to_all(own_part, none_, received, blocks_)->wait();
    copy(bucket.offset, own_part, own.elems);
    copy(bucket.offset + own.elems, received + own.elems, bucket.elems - own.elems);
  }
  if (rank_ != 0) return;
  for (const OwnedStretch& stretch : ownership_.stretches())
    if (stretch.everywhere) copy(stretch.offset, owned + stretch.local, stretch.elems);
}

}  // namespace lockstep
