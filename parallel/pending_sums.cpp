// SPDX-License-Identifier: Apache-2.0
#include "parallel/pending_sums.h"

#include "core/base/error.h"

namespace lockstep {

PendingSums::PendingSums(Backend& backend, float* gradients, Bucket extent)
    : backend_(backend), gradients_(gradients), extent_(extent) {}

void PendingSums::reserve(int depth) {
  while (int(arrays_.size()) < depth - 1) {
    arrays_.push_back(
        backend_.allocate(std::size_t(extent_.elems) * sizeof(float), "pending gradient sums"));
    pending_.push_back(arrays_.back()->as<float>() - extent_.offset);
  }
}

void PendingSums::begin(const LocalTree& tree) {
  tree_ = &tree;
  pushed_ = open_ = 0;
}

void PendingSums::push() {
  LOCKSTEP_ASSERT(left() > 0);
  const int merges = tree_->merges[std::size_t(pushed_++)];
  float* const* top = pending_.data() + open_;  // One above the highest pending sum.
  if (merges == 0) {
    backend_.copy(*top + extent_.offset,
                  gradients_ + extent_.offset,
                  std::size_t(extent_.elems) * sizeof(float));
  } else if (merges == 1) {
    float* sum = top[-1] + extent_.offset;
    backend_.add(sum, sum, gradients_ + extent_.offset, extent_.elems);
  } else {
    for_cache_blocks(extent_, [&](std::int64_t at, std::int64_t elems) {
      for (int i = 1; i <= merges; ++i)
        backend_.add(
            (i < merges ? gradients_ : top[-i]) + at, top[-i] + at, gradients_ + at, elems);
    });
  }
  open_ += 1 - merges;
}

void PendingSums::push_last(Bucket bucket) {
  LOCKSTEP_ASSERT(left() == 0);
  const int merges = tree_->merges.back();
  float* const* top = pending_.data() + open_;
  if (merges == 1) {
    float* sum = gradients_ + bucket.offset;
    backend_.add(sum, top[-1] + bucket.offset, sum, bucket.elems);
  } else if (merges > 1) {
    for_cache_blocks(bucket, [&](std::int64_t at, std::int64_t elems) {
      for (int i = 1; i <= merges; ++i)
        backend_.add(gradients_ + at, top[-i] + at, gradients_ + at, elems);
    });
  }
}

float* PendingSums::node(int index) const {
  return index + 1 == int(tree_->nodes.size()) ? gradients_ : pending_[std::size_t(index)];
}

}  // namespace lockstep
