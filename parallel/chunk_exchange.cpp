// SPDX-License-Identifier: Apache-2.0
#include "parallel/chunk_exchange.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep {
namespace {

constexpr std::int64_t kZeros = 16 * 1024;

}  // namespace

ChunkExchange::ChunkExchange(Backend& backend,
                             Communicator& communicator,
                             Reduction reduction,
                             PendingSums& sums,
                             float* gradients,
                             int bucket_count)
    : backend_(backend),
      reduction_(reduction),
      sums_(sums),
      gradients_(gradients),
      rank_(communicator.rank()),
      ranks_(communicator.size()),
      exchange_comm_(&communicator),
      gather_comm_(&communicator),
      to_(std::size_t(ranks_)),
      from_(std::size_t(ranks_)) {
  in_flight_.resize(std::size_t(bucket_count));
  if (ranks_ == 1) return;
  if (!communicator.in_stream_order()) {
    for (auto& own : own_comms_) own = communicator.split(0, rank_);
    exchange_comm_ = own_comms_[0].get();
    gather_comm_ = own_comms_[1].get();
  }
  // How many buckets are under way at once depends on the moment, and each may still hold the
  // request of the step before while it starts its next.
  exchange_comm_->reserve_requests(2 * bucket_count);
  gather_comm_->reserve_requests(2 * bucket_count);
  if (reduction_ == Reduction::fast)
    zeros_ = backend_.allocate(kZeros * sizeof(float), "zeros for ranks without shards");
}

std::int64_t ChunkExchange::slot_elems(const ExchangeSize& size, std::int64_t bucket_elems) const {
  if (ranks_ == 1 || reduction_ == Reduction::fast) return 0;
  // The chunk of rank 0 is never the smaller one: every rank then reserves alike.
  return (size.nodes - size.own_nodes) * chunk_of(bucket_elems, 0, ranks_).elems;
}

void ChunkExchange::reserve(std::int64_t elems) {
  const std::size_t bytes = std::size_t(elems) * sizeof(float);
  if (bytes > pool_bytes()) {
    pool_.reset();
    pool_ = backend_.allocate(bytes, "gradient exchange buffers");
  }
}

void ChunkExchange::begin(const ExchangePlan& plan, std::int64_t largest) {
  LOCKSTEP_ASSERT(idle());
  plan_ = &plan;
  started_ = exchanged_ = summed_ = gathered_ = 0;
  slot_size_ = slot_elems(plan.size, largest);
  slots_ = slot_size_ == 0
               ? kSlots
               : int(std::clamp<std::int64_t>(
                     std::int64_t(pool_bytes() / sizeof(float)) / slot_size_, 1, kSlots));
  LOCKSTEP_ASSERT(std::size_t(slot_size_ * (slot_size_ == 0 ? 1 : slots_)) * sizeof(float) <=
                  pool_bytes());
  operands_.resize(std::size_t(plan.nodes()));
  terms_.resize(operands_.size());
  for (InFlight& entry : in_flight_) entry.all_to_all.reserve(std::size_t(plan.layers));
}

void ChunkExchange::start(Bucket bucket) {
  InFlight& entry = in_flight_[std::size_t(started_)];
  entry.bucket = bucket;
  ++started_;
  if (reduction_ == Reduction::fast) start_all_reduce(entry);
  progress();
}

void ChunkExchange::start_all_reduce(InFlight& entry) {
  const Bucket& b = entry.bucket;
  if (plan_->nodes_of(rank_) == 0)
    for (std::int64_t i = 0; i < b.elems; i += kZeros)
      backend_.copy(gradients_ + b.offset + i,
                    zeros_->data(),
                    std::size_t(std::min(kZeros, b.elems - i)) * sizeof(float));
  entry.gather = exchange_comm_->start_all_reduce(gradients_ + b.offset, b.elems);
  bytes_sent_ += std::uint64_t(b.elems) * sizeof(float) * 2 * std::uint64_t(ranks_ - 1) /
                 std::uint64_t(ranks_);
  ++exchanged_;
  ++summed_;
}

void ChunkExchange::start_all_to_all(InFlight& entry, int slot) {
  const Bucket& b = entry.bucket;
  const std::int64_t stride = chunk_of(b.elems, 0, ranks_).elems;
  const std::int64_t own_chunk = chunk_of(b.elems, rank_, ranks_).elems;
  const int own_nodes = plan_->nodes_of(rank_);
  float* receive = pool_ ? pool_->as<float>() + slot * slot_size_ : nullptr;
  entry.all_to_all.clear();
  for (int layer = 0; layer < plan_->layers; ++layer) {
    for (int r = 0, received = 0; r < ranks_; ++r) {
      to_[std::size_t(r)] = from_[std::size_t(r)] = {};
      if (r == rank_) continue;  // What it has itself it adds where it is.
      if (layer < own_nodes) to_[std::size_t(r)] = chunk_of(b.elems, r, ranks_);
      if (layer < plan_->nodes_of(r))
        from_[std::size_t(r)] = {(received + layer) * stride, own_chunk};
      received += plan_->nodes_of(r);
      bytes_sent_ += std::uint64_t(to_[std::size_t(r)].elems) * sizeof(float);
    }
    const float* send = layer < own_nodes ? sums_.node(layer) : gradients_;
    entry.all_to_all.push_back(
        exchange_comm_->start_all_to_all(send + b.offset, to_, receive, from_));
  }
}

void ChunkExchange::sum_chunk(const InFlight& entry, int slot) {
  const Bucket& b = entry.bucket;
  const std::int64_t stride = chunk_of(b.elems, 0, ranks_).elems;
  const CommBlock chunk = chunk_of(b.elems, rank_, ranks_);
  float* next = pool_ ? pool_->as<float>() + slot * slot_size_ : nullptr;
  std::size_t operand = 0;
  for (int r = 0; r < ranks_; ++r)
    for (int node = 0; node < plan_->nodes_of(r); ++node, ++operand) {
      if (r == rank_) {
        operands_[operand] = sums_.node(node) + b.offset + chunk.offset;
      } else {
        operands_[operand] = next;
        next += stride;
      }
    }
  to_terms(plan_->finish, operands_, terms_);
  backend_.sum_tree(terms_, gradients_ + b.offset + chunk.offset, chunk.elems);
}

void ChunkExchange::start_all_gather(InFlight& entry) {
  const Bucket& b = entry.bucket;
  for (int r = 0; r < ranks_; ++r) from_[std::size_t(r)] = chunk_of(b.elems, r, ranks_);
  entry.gather = gather_comm_->start_all_gather(gradients_ + b.offset, from_);
  bytes_sent_ +=
      std::uint64_t(from_[std::size_t(rank_)].elems) * sizeof(float) * std::uint64_t(ranks_ - 1);
}

bool ChunkExchange::try_exchange() {
  if (exchanged_ == started_ || exchanged_ - summed_ >= slots_) return false;
  start_all_to_all(in_flight_[std::size_t(exchanged_)], exchanged_ % slots_);
  ++exchanged_;
  return true;
}

bool ChunkExchange::try_sum() {
  if (summed_ == exchanged_) return false;
  InFlight& entry = in_flight_[std::size_t(summed_)];
  while (!entry.all_to_all.empty()) {
    if (!entry.all_to_all.back()->test()) return false;
    entry.all_to_all.pop_back();
  }
  sum_chunk(entry, summed_ % slots_);
  start_all_gather(entry);
  ++summed_;
  return true;
}

bool ChunkExchange::try_gather() {
  if (gathered_ == summed_) return false;
  InFlight& entry = in_flight_[std::size_t(gathered_)];
  if (!entry.gather->test()) return false;
  entry.gather.reset();
  ++gathered_;
  return true;
}

void ChunkExchange::progress() {
  if (idle()) return;
  bool moved = true;
  while (moved) {
    moved = try_exchange();
    moved = try_sum() || moved;
    moved = try_gather() || moved;
  }
}

}  // namespace lockstep
