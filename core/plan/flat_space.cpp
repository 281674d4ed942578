// SPDX-License-Identifier: Apache-2.0
#include "core/plan/flat_space.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/check.h"
#include "core/plan/norm_block.h"
#include "core/plan/precision.h"

namespace lockstep {
namespace {

/// A parameter, in the order in which the program finishes what is summed for them.
struct Finished {
  int parameter = -1;
  int node = -1;  ///< that finishes it
  bool trained = false;
  std::int64_t elems = 0;  ///< with padding
};

std::int64_t padded(std::int64_t elems) {
  return (elems + kSegmentAlignment - 1) / kSegmentAlignment * kSegmentAlignment;
}

std::vector<Finished> finishing_order(const Graph& graph) {
  std::vector<Finished> order;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i)
    for (ValueId output : graph.nodes()[i].outputs)
      if (const int parameter = graph.value(output).accumulates_into; parameter >= 0)
        order.push_back(
            {.parameter = parameter,
             .node = int(i),
             .trained = graph.parameters()[std::size_t(parameter)].kind == ParameterKind::trained,
             .elems = padded(graph.parameters()[std::size_t(parameter)].shape.elems())});
  const auto frozen = std::ranges::count_if(graph.parameters(), &Parameter::frozen);
  LOCKSTEP_ASSERT(order.size() + std::size_t(frozen) == graph.parameters().size());
  return order;
}

// Nothing of the last bucket's exchange is hidden by backward.
constexpr std::int64_t kLastBucketShare = 8;
// Elements: 256 KiB. No tensor is cut into smaller buckets.
constexpr std::int64_t kMinPiece = 64 * 1024;
// A bucket is padded where that makes it larger by less than one part in as many.
constexpr std::int64_t kMinUnits = 16;
// Of a bucket whose optimizer is sharded: its padding is less than one of them, so at most a
// quarter, on any number of ranks.
constexpr std::int64_t kMinShardedUnits = 4;

/// Sizes in elements.
struct BucketSizes {
  std::int64_t unit = 1;          ///< of equal chunks for all ranks
  std::int64_t sharded_unit = 0;  ///< of those that ranks own; 0: no bucket is sharded
  std::int64_t limit = 1;         ///< a bucket with as many takes no other tensor
  std::int64_t last = 0;          ///< the last of several buckets is to have at most as many
  std::int64_t large = 1;         ///< a parameter with more begins a bucket
  std::int64_t piece = 1;         ///< of a bucket within such a parameter

  BucketSizes(std::int64_t bytes, const BucketRules& rules)
      : unit(std::lcm(kSegmentAlignment, kChunkUnit * rules.ranks)),
        sharded_unit(rules.shards_optimizer && rules.ranks > 1 ? kNormBlock * rules.ranks : 0),
        limit(std::max({std::int64_t{1}, bytes / 4, kMinShardedUnits * sharded_unit})),
        last(limit / kLastBucketShare),
        large(std::max(limit / kSegmentAlignment * kSegmentAlignment, kMinPiece)),
        piece(!rules.cuts_parameters ? std::numeric_limits<std::int64_t>::max()
              : sharded_unit > 0     ? round_up(large, sharded_unit)
                                     : with_padding(large)) {}

  static std::int64_t round_up(std::int64_t elems, std::int64_t unit) {
    return (elems + unit - 1) / unit * unit;
  }
  bool shards(std::int64_t elems) const {
    return sharded_unit > 0 && elems * 4 > kMinShardedBytes &&
           (round_up(elems, sharded_unit) - elems) * 4 <= elems;
  }
  std::int64_t with_padding(std::int64_t elems) const {
    return elems < kMinUnits * unit ? elems : (elems + unit - 1) / unit * unit;
  }
};

/// Whether a bucket begins with each parameter. One begins before a large parameter, so that what
/// is complete earlier does not wait for it, unless it would end a bucket that is small.
std::vector<bool> bucket_begins(const std::vector<Finished>& order, const BucketSizes& sizes) {
  std::vector<bool> begins(order.size());
  std::int64_t open = 0, buckets = 0;
  std::size_t last = 0;  // the first parameter of which the open bucket has some
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool is_large = order[i].elems > sizes.large;
    begins[i] = i == 0 || open >= sizes.limit || (is_large && open > sizes.last) ||
                (sizes.sharded_unit > 0 && order[i].trained != order[i - 1].trained);
    if (begins[i]) {
      open = 0;
      last = i;
      ++buckets;
    }
    open += order[i].elems;
    const std::int64_t cuts = order[i].elems > sizes.piece ? (open - 1) / sizes.piece : 0;
    if (cuts == 0) continue;
    buckets += cuts;
    open -= cuts * sizes.piece;
    last = i;
  }
  if (buckets < 2 || open <= sizes.last) return begins;
  // What one node finishes stays together: a cut within it would let nothing begin earlier.
  std::size_t cut = order.size();
  std::int64_t after = 0;
  for (std::size_t i = order.size(); --i > last;) {
    after += order[i].elems;
    if (order[i].node == order[i - 1].node) continue;
    if (cut < order.size() && after > sizes.last) break;
    cut = i;
  }
  if (cut < order.size()) begins[cut] = true;
  return begins;
}

/// `trained`: the bucket's parameters are.
void end_bucket(FlatSpace& space, const BucketSizes& sizes, bool trained) {
  Bucket& bucket = space.buckets.back();
  bucket.sharded = trained && sizes.shards(bucket.elems);
  bucket.elems = bucket.sharded ? sizes.round_up(bucket.elems, sizes.sharded_unit)
                                : sizes.with_padding(bucket.elems);
  space.elems = bucket.offset + bucket.elems;
}

/// No chunk that a rank owns ends within a block of a norm: tensors of several blocks begin at
/// multiples of one, others lie between two.
void skip_to_norm_block(FlatSpace& space, std::int64_t elems) {
  Bucket& bucket = space.buckets.back();
  const std::int64_t over = bucket.elems % kNormBlock;
  if (over == 0 || over + padded(elems) <= kNormBlock) return;
  bucket.elems += kNormBlock - over;
  space.elems += kNormBlock - over;
}

void append(FlatSpace& space, int parameter, std::int64_t elems, const BucketSizes& sizes) {
  if (sizes.sharded_unit > 0) skip_to_norm_block(space, elems);
  space.segment_of_parameter[std::size_t(parameter)] = int(space.segments.size());
  space.segments.push_back({parameter, space.elems, elems, int(space.buckets.size()) - 1});
  std::int64_t left = padded(elems);
  if (left > sizes.piece)
    while (space.buckets.back().elems + left > sizes.piece) {
      Bucket& bucket = space.buckets.back();
      const std::int64_t taken = sizes.piece - bucket.elems;
      bucket.elems = sizes.piece;
      bucket.sharded = sizes.shards(sizes.piece);
      space.elems += taken;
      left -= taken;
      space.buckets.push_back({space.elems, 0});
    }
  space.buckets.back().elems += left;
  space.elems += left;
}

/// Whether a sharded bucket has some of the segment.
bool is_sharded(const FlatSpace& space, const Segment& segment) {
  return std::ranges::any_of(space.buckets, [&](const Bucket& bucket) {
    return bucket.sharded && bucket.offset < segment.offset + segment.elems &&
           segment.offset < bucket.offset + bucket.elems;
  });
}

void mark_bf16(FlatSpace& space, const Graph& graph) {
  const std::vector<bool> rounded = bf16_weights(graph);
  for (Segment& segment : space.segments)
    segment.bf16 = rounded[std::size_t(segment.parameter)] && is_sharded(space, segment);
  for (Bucket& bucket : space.buckets)
    for (const WeightRun& run : weight_runs(space, bucket.offset, bucket.elems))
      if (bucket.sharded && run.bf16) bucket.bf16_elems += run.elems;
}

}  // namespace

std::vector<WeightRun> weight_runs(const FlatSpace& space,
                                   std::int64_t offset,
                                   std::int64_t elems) {
  std::vector<WeightRun> runs;
  const std::int64_t end = offset + elems;
  auto segment = std::ranges::upper_bound(space.segments, offset, {}, &Segment::offset);
  if (segment != space.segments.begin()) --segment;
  for (; segment != space.segments.end() && segment->offset < end; ++segment) {
    const std::int64_t begin = std::max(segment->offset, offset);
    if (runs.empty() || runs.back().bf16 != segment->bf16)
      runs.push_back({.offset = runs.empty() ? offset : begin, .elems = 0, .bf16 = segment->bf16});
    const auto next = std::next(segment);
    const std::int64_t last = next == space.segments.end() ? end : std::min(end, next->offset);
    runs.back().elems = last - runs.back().offset;
  }
  return runs;
}

FlatSpace lay_out(const Graph& graph, std::int64_t bucket_bytes, const BucketRules& rules) {
  FlatSpace space;
  space.ranks = rules.ranks;
  space.ranks_per_host = rules.ranks_per_host;
  space.segment_of_parameter.assign(graph.parameters().size(), -1);
  const BucketSizes sizes(bucket_bytes, rules);
  const auto elems_of = [&](int parameter) {
    return graph.parameters()[std::size_t(parameter)].shape.elems();
  };
  const std::vector<Finished> order = finishing_order(graph);
  const std::vector<bool> begins = bucket_begins(order, sizes);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (begins[i]) {
      if (i > 0) end_bucket(space, sizes, order[i - 1].trained);
      space.buckets.push_back({space.elems, 0});
    }
    append(space, order[i].parameter, elems_of(order[i].parameter), sizes);
  }
  if (!order.empty()) end_bucket(space, sizes, order.back().trained);
  for (std::size_t i = 0; i < graph.parameters().size(); ++i) {
    if (!graph.parameters()[i].frozen) continue;
    const std::int64_t elems = elems_of(int(i));
    space.segment_of_parameter[i] = int(space.segments.size());
    space.segments.push_back({int(i), space.elems, elems, -1});
    space.elems += padded(elems);
  }
  if (sizes.sharded_unit > 0) mark_bf16(space, graph);
  return space;
}

std::string to_text(const FlatSpace& space, const Graph& graph) {
  std::string text;
  for (const Segment& s : space.segments)
    text += fmt::format("segment {} offset={} elems={} bucket={}{}\n",
                        graph.parameters()[std::size_t(s.parameter)].name,
                        s.offset,
                        s.elems,
                        s.bucket,
                        s.bf16 ? " bf16" : "");
  for (const Bucket& b : space.buckets)
    text += fmt::format(
        "bucket offset={} elems={}{}\n", b.offset, b.elems, b.sharded ? " sharded" : "");
  return text;
}

}  // namespace lockstep
