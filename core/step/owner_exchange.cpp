// SPDX-License-Identifier: Apache-2.0
#include "core/step/owner_exchange.h"

#include <algorithm>

#include "core/base/check.h"

namespace lockstep {
namespace {

/// Empty, at the begin of `bucket`, where they do not meet.
FlatRange overlap(const Bucket& bucket, const FlatRange& range) {
  const std::int64_t begin = std::max(bucket.offset, range.offset);
  const std::int64_t end = std::min(bucket.offset + bucket.elems, range.offset + range.elems);
  if (end <= begin) return {.offset = bucket.offset, .elems = 0};
  return {.offset = begin, .elems = end - begin};
}

}  // namespace

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
      from_(std::size_t(ranks_)) {
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
  entry.request = communicator_.start_all_gather(reinterpret_cast<float*>(entry.memory), blocks_);
  entry.message = &message;
}

void OwnerExchange::finish_message(InFlight& entry, float* weights) {
  if (entry.message == nullptr) return;
  entry.request->wait();
  entry.request.reset();
  backend_.unpack_weights(entry.memory, entry.message->received, weights);
  entry.message = nullptr;
}

bool OwnerExchange::in_flight() const {
  return !requests_.empty() || std::ranges::any_of(in_flight_, [](const InFlight& entry) {
    return entry.request != nullptr;
  });
}

void OwnerExchange::undo(const SentBytes& sent) {
  bytes_sent_ = sent.all;
  requests_.clear();
  for (InFlight& entry : in_flight_) {
    entry.request.reset();
    entry.message = nullptr;
  }
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

void OwnerExchange::collect(const float* owned, std::span<const FlatRange> wanted, float* host) {
  LOCKSTEP_ASSERT(std::ssize(wanted) == ranks_);
  const FlatRange& own_wanted = wanted[std::size_t(rank_)];
  /// `from` has what lies at `offset` of the flat space.
  const auto copy = [&](std::int64_t offset, std::int64_t end, const float* from) {
    if (end > offset)
      backend_.copy_to_host(
          host + (offset - own_wanted.offset), from, std::size_t(end - offset) * sizeof(float));
  };
  for (const Bucket& bucket : sharded_) {
    const Bucket own = owned_chunk(bucket, rank_, ranks_);
    const float* const own_part = owned + ownership_.within(own.offset, own.elems).front().local;
    float* const received = gradients_ + bucket.offset;
    for (int r = 0; r < ranks_; ++r) {
      const bool is_own = r == rank_;
      const FlatRange to = overlap(own, is_own ? FlatRange{} : wanted[std::size_t(r)]);
      const FlatRange from =
          overlap(owned_chunk(bucket, r, ranks_), is_own ? FlatRange{} : own_wanted);
      blocks_[std::size_t(r)] = {to.offset - own.offset, to.elems};
      from_[std::size_t(r)] = {from.offset - bucket.offset, from.elems};
    }
    communicator_.start_all_to_all(own_part, blocks_, received, from_)->wait();
    const FlatRange all = overlap(bucket, own_wanted), mine = overlap(own, own_wanted);
    const std::int64_t end = all.offset + all.elems, own_end = own.offset + own.elems;
    copy(all.offset, std::min(end, own.offset), received + (all.offset - bucket.offset));
    copy(mine.offset, mine.offset + mine.elems, own_part + (mine.offset - own.offset));
    const std::int64_t rest = std::max(all.offset, own_end);
    copy(rest, end, received + (rest - bucket.offset));
  }
  for (const OwnedStretch& stretch : ownership_.stretches()) {
    if (!stretch.everywhere) continue;
    const FlatRange part = overlap({.offset = stretch.offset, .elems = stretch.elems}, own_wanted);
    copy(part.offset,
         part.offset + part.elems,
         owned + stretch.local + (part.offset - stretch.offset));
  }
}

}  // namespace lockstep
