// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace lockstep {

/// A stretch of the flat space that is exchanged as one message, in elements.
struct Bucket {
  std::int64_t offset = 0;
  std::int64_t elems = 0;
  /// Each rank updates a chunk of it: see Note [Sharded optimizer] in ownership.h.
  bool sharded = false;
  /// Of a sharded one: elements that owners send as bf16, see Note [Weights in bf16].
  std::int64_t bf16_elems = 0;
  int number = 0;  ///< in a GradientExchange: among its buckets
};

/// Bytes of the bucket's weights as they reach the other ranks.
constexpr std::int64_t weight_bytes(const Bucket& bucket) {
  return 4 * bucket.elems - 2 * bucket.bf16_elems;
}

/// The place of one parameter in the flat arrays (values, gradients, optimizer state).
struct Segment {
  int parameter = -1;
  std::int64_t offset = 0;  ///< elements, a multiple of kSegmentAlignment
  std::int64_t elems = 0;   ///< without the padding after it, which stays zero
  int bucket = 0;           ///< the first that has some of it; -1: frozen, after the buckets
  bool bf16 = false;        ///< owners send it as bf16: Note [Weights in bf16]
};

/// Elements to whose multiples segments are aligned: 256 bytes.
inline constexpr std::int64_t kSegmentAlignment = 64;

/// One layout for every flat array. Segments are in the order in which a training program
/// finishes their sums (metrics and batch-norm statistics in forward, gradients in backward), so
/// that a bucket is complete as early as possible and is exchanged in place. Frozen parameters
/// come after them.
struct FlatSpace {
  std::vector<Segment> segments;          ///< in flat order
  std::vector<int> segment_of_parameter;  ///< in declaration order
  std::vector<Bucket> buckets;            ///< cover all segments but the frozen, in order
  std::int64_t elems = 0;                 ///< with padding
  int ranks = 1;                          ///< BucketRules::ranks
  int ranks_per_host = 1;                 ///< BucketRules::ranks_per_host

  const Segment& of(int parameter) const {
    return segments[std::size_t(segment_of_parameter[std::size_t(parameter)])];
  }
};

/// Elements of which a rank's part of a bucket is a multiple, but for the last ranks': 64 bytes, so
/// that ranks share no cache line.
inline constexpr std::int64_t kChunkUnit = 16;

/// Smaller buckets are not sharded: every rank has their sums without an all-gather, and their
/// optimizer state is small.
inline constexpr std::int64_t kMinShardedBytes = 64 * 1024;

/// Who exchanges the buckets.
struct BucketRules {
  int ranks = 1;
  /// Communicator::ranks_per_node(). Says which chunk a rank owns, and nothing of the layout.
  int ranks_per_host = 1;
  /// Whether a parameter larger than a bucket becomes several. Where several buckets are under way
  /// at once, the largest decides about receive buffers; where they take turns, as on GPUs, pieces
  /// would only add latencies.
  bool cuts_parameters = true;
  /// Whether buckets of trained parameters are sharded: see Note [Sharded optimizer].
  bool shards_optimizer = false;
};

/// A stretch that owners send as bf16, or as fp32.
struct WeightRun {
  std::int64_t offset = 0;
  std::int64_t elems = 0;
  bool bf16 = false;
};

/// The longest runs of [offset, offset + elems), in order; padding is of the segment before it.
std::vector<WeightRun> weight_runs(const FlatSpace& space, std::int64_t offset, std::int64_t elems);

/// Lays out the parameters of a training graph in buckets of at least `bucket_bytes` and less than
/// one parameter more. A parameter larger than that (and than 256 KiB) begins a bucket, and is cut
/// into buckets of that size where the rules say so.
///
/// Where there are several buckets, backward can hide all but what its last kernels complete: the
/// last bucket has an eighth of `bucket_bytes` at most, or what one node completes, and no more
/// than that shares a bucket with the begin of a large parameter.
///
/// Buckets end in padding so that the ranks' chunks are equal, and one all-gather of equal blocks
/// brings them together, unless that is more than a sixteenth of the bucket. Depends on the graph
/// and the rules alone, so ranks agree without talking.
///
/// With `shards_optimizer` metrics and statistics have buckets of their own, and of the others all
/// are sharded that are larger than kMinShardedBytes, but where padding would make them larger by
/// more than a quarter.
FlatSpace lay_out(const Graph& graph, std::int64_t bucket_bytes, const BucketRules& rules = {});

/// One line per segment and bucket.
std::string to_text(const FlatSpace& space, const Graph& graph);

}  // namespace lockstep
