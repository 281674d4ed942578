// SPDX-License-Identifier: Apache-2.0
#include "parallel/exchange/partial_sums.h"

#include "core/base/check.h"

namespace lockstep {

Bucket extent_of(std::span<const Bucket> buckets) {
  LOCKSTEP_ASSERT(!buckets.empty());
  std::int64_t end = buckets.front().offset;
  for (const Bucket& bucket : buckets) {
    LOCKSTEP_ASSERT(bucket.offset >= end && bucket.elems >= 0);
    end = bucket.offset + bucket.elems;
  }
  return {buckets.front().offset, end - buckets.front().offset};
}

PartialSums::PartialSums(Backend& backend, float* gradients, Bucket extent)
    : backend_(backend), gradients_(gradients), extent_(extent) {}

void PartialSums::reserve(int depth) {
  while (int(arrays_.size()) < depth - 1) {
    arrays_.push_back(
        backend_.allocate(std::size_t(extent_.elems) * sizeof(float), "pending gradient sums"));
    pending_.push_back(arrays_.back()->as<float>() - extent_.offset);
  }
  terms_.reserve(pending_.size() + 1);
}

void PartialSums::begin(const LocalTree& tree) {
  tree_ = &tree;
  pushed_ = open_ = 0;
}

void PartialSums::push() {
  merge(next_merges(), extent_, pending_[std::size_t(open_ - next_merges())]);
  was_replayed();
}

void PartialSums::was_replayed() {
  LOCKSTEP_ASSERT(left() > 0);
  open_ += 1 - next_merges();
  ++pushed_;
}

void PartialSums::push_last(Bucket bucket) {
  LOCKSTEP_ASSERT(left() == 0);
  if (const int merges = tree_->merges.back(); merges > 0) merge(merges, bucket, gradients_);
}

void PartialSums::merge(int merges, Bucket range, float* result) {
  terms_.clear();
  for (int i = open_ - merges; i < open_; ++i)
    terms_.push_back({pending_[std::size_t(i)] + range.offset, 0});
  terms_.push_back({gradients_ + range.offset, merges});
  backend_.sum_tree(terms_, result + range.offset, range.elems);
}

float* PartialSums::node(int index) const {
  return index + 1 == int(tree_->nodes.size()) ? gradients_ : pending_[std::size_t(index)];
}

}  // namespace lockstep
