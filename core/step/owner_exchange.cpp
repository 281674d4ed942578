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
                             const HostCommunicators& hosts,
                             const FlatSpace& space,
                             float* gradients,
                             const GradientSpace& places)
    : backend_(backend),
      communicator_(communicator),
      space_(space),
      gradients_(gradients),
      rank_(communicator.rank()),
      ranks_(communicator.size()),
      ownership_(space, rank_),
      blocks_(std::size_t(ranks_)),
      from_(std::size_t(ranks_)) {
  for (std::size_t b = 0; b < space.buckets.size(); ++b) {
    if (!space.buckets[b].sharded) continue;
    sharded_.push_back(space.buckets[b]);
    places_.push_back(places.place_of(int(b)));
  }
  make_levels(hosts);
  const int requests = int(std::max<std::size_t>(1, sharded_.size()));
  communicator_.reserve_requests(requests);
  for (const Level& level : levels_) level.communicator->reserve_requests(requests);
  for (const Bucket& bucket : sharded_) {
    Gather& gather = gathers_.emplace_back(Gather{.bucket = &bucket});
    if (two_streams_)
      for (auto* event : {&gather.ready, &gather.arrived}) *event = backend.make_event();
  }
  reserve_messages();
}

void OwnerExchange::make_levels(const HostCommunicators& hosts) {
  const int per_host = space_.ranks_per_host;
  if (!has_two_levels(ranks_, per_host)) {
    levels_ = {{.communicator = &communicator_}};
    return;
  }
  LOCKSTEP_ASSERT(hosts.host != nullptr && hosts.host->size() == per_host);
  const int host_count = ranks_ / per_host;
  levels_ = {{.communicator = hosts.across_hosts,
              .first_chunk = rank_ % per_host * host_count,
              .chunks = 1,
              .across_hosts = true},
             {.communicator = hosts.host, .first_chunk = 0, .chunks = host_count}};
  two_streams_ = communicator_.in_stream_order();
}

void OwnerExchange::reserve_messages() {
  for (const Bucket& bucket : sharded_) {
    if (bucket.bf16_elems == 0) continue;
    messages_.push_back({.plan = make_weight_message(space_, bucket), .received = {}});
    Message& message = messages_.back();
    message_units_ = std::max(message_units_, message.plan.units());
    for (int chunk = 0; chunk < ranks_; ++chunk)
      if (const auto& pieces = message.plan.blocks[std::size_t(chunk)].pieces;
          chunk != owned_index(space_, rank_))
        message.received.insert(message.received.end(), pieces.begin(), pieces.end());
  }
  if (messages_.empty()) return;
  // One is packed or unpacked while another travels.
  const int slots = std::max(2, backend_.traits().buckets_in_flight);
  slots_ = std::min(messages_.size(), std::size_t(slots));
  memory_ = backend_.allocate(slots_ * std::size_t(message_units_) * sizeof(std::uint16_t),
                              "weights on their way to other ranks");
}

void OwnerExchange::gather_weights(float* weights) { gather_buckets(weights, false); }
void OwnerExchange::share_weights(float* weights) { gather_buckets(weights, true); }

void OwnerExchange::gather_buckets(float* weights, bool rounded) {
  started_ = climbed_ = completed_ = messages_done_ = 0;
  std::size_t messages = 0;
  for (Gather& gather : gathers_) {
    gather.message = nullptr;
    if (rounded && gather.bucket->bf16_elems > 0) {
      while (messages - messages_done_ == slots_) complete(completed_ + 1, weights);
      gather.memory =
          memory_->as<std::uint16_t>() + std::int64_t(messages % slots_) * message_units_;
      gather.message = &messages_[messages++];
    }
    start_first(gather, weights);
    ++started_;
    climb(weights);
  }
  complete(started_, weights);
}

/// Of chunks, in floats: where they lie in the bucket or in its message.
CommBlock OwnerExchange::chunks(const Gather& gather, int first, int count) const {
  if (gather.message == nullptr) {
    const std::int64_t elems = gather.bucket->elems / ranks_;
    return {first * elems, count * elems};
  }
  constexpr std::int64_t kFloat = sizeof(float) / sizeof(std::uint16_t);
  const WeightMessage& plan = gather.message->plan;
  const WeightBlock& last = plan.blocks[std::size_t(first + count - 1)];
  const std::int64_t begin = plan.blocks[std::size_t(first)].place;
  return {begin / kFloat, (last.place + last.units - begin) / kFloat};
}

void OwnerExchange::start_level(Gather& gather, const Level& level, float* weights) {
  const int members = level.communicator->size(), own = level.communicator->rank();
  const std::span<CommBlock> blocks = std::span(blocks_).first(std::size_t(members));
  for (int m = 0; m < members; ++m)
    blocks[std::size_t(m)] = chunks(gather, level.first_chunk + m * level.chunks, level.chunks);
  const int others = members - 1;
  count_sent(blocks[std::size_t(own)].elems * std::int64_t(sizeof(float)),
             others,
             levels_.size() == 1  ? ranks_ - communicator_.ranks_per_node()
             : level.across_hosts ? others
                                  : 0);
  float* const data = gather.message == nullptr ? weights + gather.bucket->offset
                                                : reinterpret_cast<float*>(gather.memory);
  gather.request = level.communicator->start_all_gather(data, blocks);
}

void OwnerExchange::start_first(Gather& gather, float* weights) {
  if (gather.message != nullptr)
    backend_.pack_weights(
        weights,
        gather.message->plan.blocks[std::size_t(owned_index(space_, rank_))].pieces,
        gather.memory);
  if (!two_streams_) return start_level(gather, levels_.front(), weights);
  backend_.record(*gather.ready);
  const StreamScope network(backend_, DeviceStream::network);
  backend_.wait_for(*gather.ready);
  start_level(gather, levels_.front(), weights);
  backend_.record(*gather.arrived);
}

void OwnerExchange::start_last(Gather& gather, float* weights) {
  gather.request.reset();
  if (two_streams_) backend_.wait_for(*gather.arrived);
  start_level(gather, levels_.back(), weights);
}

/// Starts the last level of what has come from other hosts. On two streams not of the bucket that
/// started last, so that the network has that one meanwhile.
void OwnerExchange::climb(float* weights) {
  if (levels_.size() == 1) return;
  const std::size_t ready = started_ - (two_streams_ ? 1 : 0);
  for (; climbed_ < ready && gathers_[climbed_].request->test(); ++climbed_)
    start_last(gathers_[climbed_], weights);
}

/// The first `count` gathers of those that have started.
void OwnerExchange::complete(std::size_t count, float* weights) {
  for (; levels_.size() > 1 && climbed_ < count; ++climbed_) {
    gathers_[climbed_].request->wait();
    start_last(gathers_[climbed_], weights);
  }
  for (; completed_ < count; ++completed_) {
    Gather& gather = gathers_[completed_];
    gather.request->wait();
    gather.request.reset();
    if (gather.message == nullptr) continue;
    backend_.unpack_weights(gather.memory, gather.message->received, weights);
    ++messages_done_;
  }
}

void OwnerExchange::count_sent(std::int64_t bytes, int others, int on_other_hosts) {
  sent_.all += std::uint64_t(bytes) * std::uint64_t(others);
  sent_.network += std::uint64_t(bytes) * std::uint64_t(on_other_hosts);
}

bool OwnerExchange::in_flight() const {
  return std::ranges::any_of(gathers_,
                             [](const Gather& gather) { return gather.request != nullptr; });
}

void OwnerExchange::undo(const SentBytes& sent) {
  sent_ = sent;
  for (Gather& gather : gathers_) gather.request.reset();
}

void OwnerExchange::warm_up(float* weights) {
  const SentBytes sent = sent_;
  share_weights(weights);
  gather_weights(weights);  // what the others have rounded
  sent_ = sent;
}

void OwnerExchange::all_gather(double* values, std::span<const std::int64_t> counts) {
  constexpr std::int64_t kFloats = sizeof(double) / sizeof(float);
  std::int64_t offset = 0;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    blocks_[r] = {offset * kFloats, counts[r] * kFloats};
    offset += counts[r];
  }
  count_sent(counts[std::size_t(rank_)] * std::int64_t(sizeof(double)),
             ranks_ - 1,
             ranks_ - communicator_.ranks_per_node());
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
  for (std::size_t b = 0; b < sharded_.size(); ++b) {
    const Bucket& bucket = sharded_[b];
    const Bucket own = owned_chunk(space_, bucket, rank_);
    const float* const own_part = owned + ownership_.within(own.offset, own.elems).front().local;
    float* const received = gradients_ + places_[b];
    for (int r = 0; r < ranks_; ++r) {
      const bool is_own = r == rank_;
      const FlatRange to = overlap(own, is_own ? FlatRange{} : wanted[std::size_t(r)]);
      const FlatRange from =
          overlap(owned_chunk(space_, bucket, r), is_own ? FlatRange{} : own_wanted);
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
