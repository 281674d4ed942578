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
  reserve_messages();
}

void OwnerExchange::reserve_messages() {
  std::int64_t units = 0;
  for (const Bucket& bucket : sharded_) {
    if (bucket.bf16_elems == 0) continue;
    messages_.push_back({.plan = make_weight_message(space_, bucket), .received = {}});
    Message& message = messages_.back();
    units = std::max(units, message.plan.units());
    for (int r = 0; r < ranks_; ++r)
      if (const auto& pieces = message.plan.blocks[std::size_t(r)].pieces; r != rank_)
        message.received.insert(message.received.end(), pieces.begin(), pieces.end());
  }
  if (messages_.empty()) return;
  in_flight_.resize(std::min(messages_.size(), std::size_t(backend_.traits().buckets_in_flight)));
  memory_ = backend_.allocate(in_flight_.size() * std::size_t(units) * sizeof(std::uint16_t),
                              "weights on their way to other ranks");
  for (std::size_t i = 0; i < in_flight_.size(); ++i)
    in_flight_[i].memory = memory_->as<std::uint16_t>() + std::int64_t(i) * units;
}

void OwnerExchange::gather_weights(float* weights) {
  for (const Bucket& bucket : sharded_) start_gather(bucket, weights);
  finish();
}

void OwnerExchange::share_weights(float* weights) {
  std::size_t started = 0;
  for (const Bucket& bucket : sharded_) {
    if (bucket.bf16_elems == 0) {
      start_gather(bucket, weights);
      continue;
    }
    InFlight& entry = in_flight_[started % in_flight_.size()];
    finish_message(entry, weights);
    start_message(messages_[started++], weights, entry);
  }
  // In the order in which they were started.
  for (std::size_t i = 0; i < in_flight_.size(); ++i)
    finish_message(in_flight_[(started + i) % in_flight_.size()], weights);
  finish();
}

void OwnerExchange::start_gather(const Bucket& bucket, float* weights) {
  for (int r = 0; r < ranks_; ++r) {
    const Bucket chunk = owned_chunk(bucket, r, ranks_);
    blocks_[std::size_t(r)] = {chunk.offset - bucket.offset, chunk.elems};
  }
  bytes_sent_ += std::uint64_t(blocks_[0].elems) * sizeof(float) * std::uint64_t(ranks_ - 1);
  requests_.push_back(communicator_.start_all_gather(weights + bucket.offset, blocks_));
}

void OwnerExchange::finish() {
  for (CommRequestPtr& request : requests_) request->wait();
  requests_.clear();
}

void OwnerExchange::start_message(const Message& message, const float* weights, InFlight& entry) {
  constexpr std::int64_t kFloat = sizeof(float) / sizeof(std::uint16_t);
  for (int r = 0; r < ranks_; ++r) {
    const WeightBlock& block = message.plan.blocks[std::size_t(r)];
    blocks_[std::size_t(r)] = {block.place / kFloat, block.units / kFloat};
  }
  const WeightBlock& own = message.plan.blocks[std::size_t(rank_)];
  backend_.pack_weights(weights, own.pieces, entry.memory);
  bytes_sent_ += std::uint64_t(own.units) * sizeof(std::uint16_t) * std::uint64_t(ranks_ - 1);
  entry.message = &message;
  entry.request = communicator_.start_all_gather(reinterpret_cast<float*>(entry.memory), blocks_);
}

void OwnerExchange::finish_message(InFlight& entry, float* weights) {
  if (entry.message == nullptr) return;
  entry.request->wait();
  entry.request.reset();
  backend_.unpack_weights(entry.memory, entry.message->received, weights);
  entry.message = nullptr;
}

void OwnerExchange::warm_up() {
  const std::uint64_t sent = bytes_sent_;
  gather_weights(gradients_);
  share_weights(gradients_);
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
