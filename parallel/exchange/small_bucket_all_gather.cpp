// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/small_bucket_all_gather.h"

#include <algorithm>

#include "lockstep/error.h"
#include "parallel/exchange/call_scratch.h"

namespace lockstep {
namespace {

void grow(Backend& backend, std::unique_ptr<DeviceBuffer>& buffer, std::size_t bytes) {
  if (bytes == 0 || (buffer && buffer->bytes() >= bytes)) return;
  buffer.reset();
  buffer = backend.allocate(bytes, "gradient exchange buffers");
}

}  // namespace

SmallBucketAllGather::SmallBucketAllGather(Backend& backend,
                                           Communicator& communicator,
                                           PartialSums& sums,
                                           const KeptSums& kept,
                                           float* gradients)
    : backend_(backend),
      sums_(sums),
      kept_(kept),
      gradients_(gradients),
      rank_(communicator.rank()),
      ranks_(communicator.size()),
      ranks_per_host_(communicator.ranks_per_node()),
      comm_(communicator) {}

bool SmallBucketAllGather::takes(int nodes, std::int64_t bucket_elems) {
  const std::int64_t bytes = bucket_elems * std::int64_t(sizeof(float));
  return bytes <= kSmallBucketBytes && bytes * nodes <= kMaxBytes;
}

std::vector<std::int64_t> kept_elems(std::span<const Bucket> buckets, int ranks) {
  std::vector<std::int64_t> elems;
  for (const Bucket& bucket : buckets)
    elems.push_back(SmallBucketAllGather::takes(ranks, bucket.elems)
                        ? bucket.elems
                        : chunks_of(bucket.elems, 0, 1, ranks).elems);
  return elems;
}

void SmallBucketAllGather::reserve(const ExchangeSize& size, std::int64_t bucket_elems) {
  const std::size_t bytes = std::size_t(bucket_elems) * sizeof(float);
  received_bytes_ = std::max(received_bytes_, std::size_t(size.nodes) * bytes);
  if (size.own_nodes > 1)
    packed_bytes_ = std::max(packed_bytes_, std::size_t(size.own_nodes) * bytes);
}

void SmallBucketAllGather::allocate() {
  grow(backend_, received_, received_bytes_);
  grow(backend_, packed_, packed_bytes_);
}

void SmallBucketAllGather::reserve_up_to(const ExchangeSize& most, std::int64_t bucket_elems) {
  if (bucket_elems == 0 || !takes(1, bucket_elems)) return;
  const std::int64_t nodes = kMaxBytes / (bucket_elems * std::int64_t(sizeof(float)));
  ExchangeSize size = most;
  size.nodes = int(std::min<std::int64_t>(most.nodes, nodes));
  size.own_nodes = std::min(most.own_nodes, size.nodes);
  reserve(size, bucket_elems);
}

std::size_t SmallBucketAllGather::bytes() const {
  return (received_ ? received_->bytes() : 0) + (packed_ ? packed_->bytes() : 0);
}

void SmallBucketAllGather::begin(const ExchangePlan& plan) {
  plan_ = &plan;
  // So that no step allocates.
  CallScratch& scratch = CallScratch::of_thread();
  SumLists lists;
  (void)lists.operands(std::size_t(plan.all().operands()));
  (void)lists.terms(std::size_t(plan.all().operands()));
  (void)CallScratch::take(scratch.sizes, std::size_t(ranks_));
}

void SmallBucketAllGather::finish(Bucket bucket) {
  const std::size_t bytes = std::size_t(bucket.elems) * sizeof(float);
  const LevelPlan& all = plan_->all();
  CallScratch& scratch = CallScratch::of_thread();
  const int own = all.nodes_of(rank_);
  const float* send = gradients_ + bucket.offset;
  if (own > 1) {
    send = packed_->as<float>();
    for (int node = 0; node < own; ++node)
      backend_.copy(
          packed_->as<float>() + node * bucket.elems, sums_.node(node) + bucket.offset, bytes);
  }
  float* received = received_->as<float>();
  if (plan_->common->equal_counts) {
    comm_.all_gather(send, received, std::size_t(own) * bytes);
  } else {
    const auto sizes = CallScratch::take(scratch.sizes, std::size_t(ranks_));
    for (int r = 0; r < ranks_; ++r) sizes[std::size_t(r)] = std::size_t(all.nodes_of(r)) * bytes;
    comm_.all_gather_v(send, received, sizes);
  }
  sent_.all += std::uint64_t(own) * bytes * std::uint64_t(ranks_ - 1);
  sent_.network += std::uint64_t(own) * bytes * std::uint64_t(ranks_ - ranks_per_host_);
  SumLists lists;
  const auto operands = lists.operands(std::size_t(all.operands()));
  const auto nodes = std::size_t(all.nodes());
  for (std::size_t i = 0; i < operands.size(); ++i)
    operands[i] = i < nodes ? received + std::int64_t(i) * bucket.elems
                            : kept_.at(all.kept[i - nodes], bucket);
  for (std::size_t i = 0; i < all.sums.size(); ++i) {
    const FinishTree& finish = all.sums[i].finish;
    const auto terms = lists.terms(finish.leaves.size());
    to_terms(finish, operands, terms);
    backend_.sum_tree(terms,
                      all.places[i] < 0 ? kept_.last(bucket, gradients_ + bucket.offset)
                                        : kept_.at(all.places[i], bucket),
                      bucket.elems);
  }
}

}  // namespace lockstep
