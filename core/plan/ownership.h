// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/flat_space.h"

namespace lockstep {

/// Note [Sharded optimizer]. With Sharding::optimizer, and with Sharding::gradients as well, each
/// rank owns an equal chunk of each sharded bucket (Rajbhandari et al. 2020, ZeRO-1): it alone
/// holds the chunk's optimizer state and average, and updates it. A step exchanges half of what it
/// would: pieces of gradients go to their owner, who sums them in the order of the tree and
/// updates; then one all-gather brings the updated weights to all ranks, in place of the gradients'
/// one. Equally many bytes in fp32, fewer in bf16: Note [Weights in bf16] in weight_message.h.
///
/// Who owns which chunk follows from how a bucket is summed. On one level rank r sums chunk r. On
/// two, with R ranks on each of H hosts (Note [Two levels] in hierarchical_reduction.h), rank r, at
/// place p = r mod R of host h = r div R, gets its host's sums of the H chunks from p H on, and
/// across hosts sums number h of these: chunk p H + h. Weights go back the same way: first the
/// ranks of one place on all hosts have their H chunks, then the ranks of a host all R of those.
/// So of n bytes of weights a host sends n (H - 1) / H to others, where one all-gather of all ranks
/// would send R times as many.
///
/// The bits are those without sharding. Updates are elementwise, but for norms of tensors. A norm
/// is a sum of blocks of kNormBlock elements, and no chunk ends within one (lay_out()), so that
/// owners square their blocks, tell each other the sums, and all add them in the same order
/// (TensorNorms). The other buckets, which are small or hold metrics and statistics, belong to
/// every rank, as without sharding.

/// Neighbouring elements that a rank owns.
struct OwnedStretch {
  std::int64_t offset = 0;  ///< in the flat space
  std::int64_t local = 0;   ///< in arrays that hold nothing but what the rank owns
  std::int64_t elems = 0;
  bool everywhere = false;  ///< all ranks own it

  std::int64_t end() const { return offset + elems; }
};

/// What `rank` owns.
class Ownership {
 public:
  Ownership(const FlatSpace& space, int rank);

  /// Whether there are elements that not all ranks own.
  bool divides() const { return divides_; }
  /// In flat order. Where the space has no sharded bucket: one, of all elements.
  std::span<const OwnedStretch> stretches() const { return stretches_; }
  /// Of an array that holds nothing but what the rank owns; a multiple of kSegmentAlignment.
  std::int64_t elems() const {
    return stretches_.empty() ? 0 : stretches_.back().local + stretches_.back().elems;
  }
  /// What the rank owns of [offset, offset + elems).
  std::vector<OwnedStretch> within(std::int64_t offset, std::int64_t elems) const;

 private:
  std::vector<OwnedStretch> stretches_;
  bool divides_ = false;
};

/// Whether there are several hosts with several ranks each, so that sums have two levels.
bool has_two_levels(int ranks, int ranks_per_host);

/// Chunk `index` of as many as there are ranks, of a sharded bucket.
Bucket chunk_of(const Bucket& bucket, int index, int ranks);
/// The index of the chunk that `rank` owns of each sharded bucket.
int owned_index(const FlatSpace& space, int rank);
/// That chunk.
Bucket owned_chunk(const FlatSpace& space, const Bucket& bucket, int rank);

}  // namespace lockstep
