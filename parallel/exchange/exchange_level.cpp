// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/exchange_level.h"

#include <algorithm>

#include "parallel/exchange/call_scratch.h"

namespace lockstep {

ExchangeLevel::ExchangeLevel(Backend& backend,
                             const Communicator& all,
                             const ExchangeCommunicators::Level& communicators,
                             float* gradients,
                             int bucket_count)
    : backend_(backend),
      gradients_(gradients),
      ranks_(all.size()),
      last_level_(communicators.members != LevelMembers::host),
      members_per_host_(communicators.members == LevelMembers::across_hosts ? 1
                                                                            : all.ranks_per_node()),
      exchange_comm_(communicators.exchange),
      gather_comm_(communicators.gather) {
  member_ = exchange_comm_->rank();
  members_ = exchange_comm_->size();
  if (communicators.members == LevelMembers::across_hosts)
    first_chunk_ = all.rank() % all.ranks_per_node() * members_;
  if (members_ == 1) return;
  // How many buckets are under way at once depends on the moment, and each may still hold the
  // request of the step before while it starts its next.
  exchange_comm_->reserve_requests(2 * bucket_count);
  gather_comm_->reserve_requests(2 * bucket_count);
}

void ExchangeLevel::begin(const LevelPlan& plan) {
  plan_ = &plan;
  reserve_scratch();  // so that no step allocates
  places_.clear();
  sums_.resize(plan.sums.size());
  const int first = plan.first_node[std::size_t(member_)];
  const auto is_own = [&](const FinishTree::Leaf& leaf) {
    return leaf.operand >= first && leaf.operand < first + plan.nodes_of(member_);
  };
  for (const NodeSum& sum : plan.sums) {
    const auto own = std::ranges::find_if(sum.finish.leaves, is_own);
    places_.push_back(own == sum.finish.leaves.end() ? sum.finish.leaves.front().operand
                                                     : own->operand);
  }
}

void ExchangeLevel::reserve_scratch() const {
  CallScratch& scratch = CallScratch::of_thread();
  (void)CallScratch::take(scratch.to, std::size_t(members_));
  (void)CallScratch::take(scratch.from, std::size_t(members_));
  SumLists lists;
  (void)lists.operands(std::size_t(plan_->operands()));
  (void)lists.terms(std::size_t(plan_->operands()));
}

std::int64_t ExchangeLevel::received(Bucket bucket) const {
  return (plan_->nodes() - plan_->nodes_of(member_)) *
         chunks_of(bucket.elems, 0, plan_->chunks, ranks_).elems;
}

CommBlock ExchangeLevel::piece(std::int64_t elems, int member) const {
  return chunks_of(elems, first_chunk_ + member * plan_->chunks, plan_->chunks, ranks_);
}

CommBlock ExchangeLevel::stretch(std::int64_t elems) const {
  return chunks_of(elems, first_chunk_, members_ * plan_->chunks, ranks_);
}

void ExchangeLevel::count(int member, std::int64_t elems) {
  const std::uint64_t bytes = std::uint64_t(elems) * sizeof(float);
  sent_.all += bytes;
  if (member / members_per_host_ != member_ / members_per_host_) sent_.network += bytes;
}

void ExchangeLevel::start_all_to_all(Bucket bucket,
                                     std::span<float* const> own,
                                     float* receive,
                                     std::vector<CommRequestPtr>& requests) {
  const std::int64_t stride = chunks_of(bucket.elems, 0, plan_->chunks, ranks_).elems;
  const std::int64_t own_piece = piece(bucket.elems, member_).elems;
  const CommBlock whole = stretch(bucket.elems);
  CallScratch& scratch = CallScratch::of_thread();
  for (int layer = 0; layer < plan_->layers; ++layer) {
    const auto to_blocks = CallScratch::take(scratch.to, std::size_t(members_));
    const auto from_blocks = CallScratch::take(scratch.from, std::size_t(members_));
    const bool sends = layer < int(own.size()) && whole.elems > 0;
    for (int m = 0, received = 0; m < members_; ++m) {
      CommBlock &to = to_blocks[std::size_t(m)], &from = from_blocks[std::size_t(m)];
      to = from = {};
      if (m == member_) continue;  // What it has itself it adds where it is.
      if (sends) {
        to = piece(bucket.elems, m);
        to.offset -= whole.offset;
      }
      if (layer < plan_->nodes_of(m)) from = {(received + layer) * stride, own_piece};
      received += plan_->nodes_of(m);
      count(m, to.elems);
    }
    const float* send = sends ? own[std::size_t(layer)] : gradients_ + bucket.offset;
    requests.push_back(exchange_comm_->start_all_to_all(send, to_blocks, receive, from_blocks));
  }
}

std::span<float*> ExchangeLevel::find_operands(SumLists& lists,
                                               Bucket bucket,
                                               std::span<float* const> own,
                                               float* receive) const {
  const auto operands = lists.operands(std::size_t(plan_->operands()));
  const std::int64_t stride = chunks_of(bucket.elems, 0, plan_->chunks, ranks_).elems;
  const std::int64_t begin = piece(bucket.elems, member_).offset - stretch(bucket.elems).offset;
  std::size_t operand = 0;
  for (int m = 0; m < members_; ++m)
    for (int node = 0; node < plan_->nodes_of(m); ++node, ++operand) {
      if (m == member_) {
        operands[operand] = own[std::size_t(node)] + begin;
      } else {
        operands[operand] = receive;
        receive += stride;
      }
    }
  return operands;
}

void ExchangeLevel::sum(Bucket bucket,
                        std::span<float* const> own,
                        float* receive,
                        const KeptSums& kept) {
  SumLists lists;
  const std::span<float*> operands = find_operands(lists, bucket, own, receive);
  for (std::size_t i = 0; i < plan_->kept.size(); ++i)
    operands[std::size_t(plan_->nodes()) + i] = kept.at(plan_->kept[i], bucket);
  const CommBlock own_piece = piece(bucket.elems, member_);
  float* const last = kept.last(bucket, gradients_ + bucket.offset, own_piece.offset);
  for (std::size_t i = 0; i < plan_->sums.size(); ++i) {
    const FinishTree& finish = plan_->sums[i].finish;
    if (!last_level_ && finish.leaves.size() == 1) continue;  // It is its sum where it is.
    const auto terms = lists.terms(finish.leaves.size());
    to_terms(finish, operands, terms);
    float* const result = !last_level_           ? operands[std::size_t(places_[i])]
                          : plan_->places[i] < 0 ? last
                                                 : kept.at(plan_->places[i], bucket);
    backend_.sum_tree(terms, result, own_piece.elems);
  }
}

std::span<float* const> ExchangeLevel::sums(Bucket bucket,
                                            std::span<float* const> own,
                                            float* receive) {
  SumLists lists;
  const std::span<float* const> operands = find_operands(lists, bucket, own, receive);
  for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] = operands[std::size_t(places_[i])];
  return sums_;
}

CommRequestPtr ExchangeLevel::start_all_gather(Bucket bucket, const KeptSums& kept) {
  const auto pieces = CallScratch::take(CallScratch::of_thread().from, std::size_t(members_));
  for (int m = 0; m < members_; ++m) pieces[std::size_t(m)] = piece(bucket.elems, m);
  for (int m = 0; m < members_; ++m)
    if (m != member_) count(m, pieces[std::size_t(member_)].elems);
  return gather_comm_->start_all_gather(kept.last(bucket, gradients_ + bucket.offset), pieces);
}

CommRequestPtr ExchangeLevel::start_all_reduce(Bucket bucket) {
  sent_.all += std::uint64_t(bucket.elems) * sizeof(float) * 2 * std::uint64_t(ranks_ - 1) /
               std::uint64_t(ranks_);
  return exchange_comm_->start_all_reduce(gradients_ + bucket.offset, bucket.elems);
}

}  // namespace lockstep
