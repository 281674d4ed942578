// SPDX-License-Identifier: Apache-2.0
#include "core/plan/flat_space.h"

#include <algorithm>

#include "core/base/check.h"

namespace lockstep {
namespace {

/// Parameters in the order in which the program finishes what is summed for them.
std::vector<int> finishing_order(const Graph& graph) {
  std::vector<int> order;
  for (const Node& node : graph.nodes())
    for (ValueId output : node.outputs)
      if (const int parameter = graph.value(output).accumulates_into; parameter >= 0)
        order.push_back(parameter);
  const auto frozen = std::ranges::count_if(graph.parameters(), &Parameter::frozen);
  LOCKSTEP_ASSERT(order.size() + std::size_t(frozen) == graph.parameters().size());
  return order;
}

// Nothing of the last bucket's exchange is hidden by backward.
constexpr std::int64_t kLastBucketShare = 8;

/// Makes the last segments, as far as they hold `most` elements, a bucket of their own where the
/// last bucket is one of several, holds more, and has others before them.
void cut_last_bucket(FlatSpace& space, std::int64_t most) {
  if (space.buckets.size() < 2 || space.buckets.back().elems <= most) return;
  Bucket& last = space.buckets.back();
  const std::int64_t end = last.offset + last.elems;
  const int number = int(space.buckets.size()) - 1;
  std::int64_t cut = end;
  for (const Segment& segment : space.segments)
    if (segment.bucket == number && end - segment.offset <= most)
      cut = std::min(cut, segment.offset);
  if (cut == end) return;
  for (Segment& segment : space.segments)
    if (segment.offset >= cut) segment.bucket = number + 1;
  last.elems = cut - last.offset;
  space.buckets.push_back({cut, end - cut});
}

std::int64_t padded(std::int64_t elems) {
  return (elems + kSegmentAlignment - 1) / kSegmentAlignment * kSegmentAlignment;
}

}  // namespace

FlatSpace lay_out(const Graph& graph, std::int64_t bucket_bytes) {
  FlatSpace space;
  space.segment_of_parameter.assign(graph.parameters().size(), -1);
  const std::int64_t bucket_elems = std::max<std::int64_t>(1, bucket_bytes / 4);
  for (int parameter : finishing_order(graph)) {
    if (space.buckets.empty() || space.buckets.back().elems >= bucket_elems)
      space.buckets.push_back({space.elems, 0});
    const std::int64_t elems = graph.parameters()[std::size_t(parameter)].shape.elems();
    space.segment_of_parameter[std::size_t(parameter)] = int(space.segments.size());
    space.segments.push_back({parameter, space.elems, elems, int(space.buckets.size()) - 1});
    space.elems += padded(elems);
    space.buckets.back().elems += padded(elems);
  }
  cut_last_bucket(space, bucket_elems / kLastBucketShare);
  for (std::size_t i = 0; i < graph.parameters().size(); ++i) {
    if (!graph.parameters()[i].frozen) continue;
    const std::int64_t elems = graph.parameters()[i].shape.elems();
    space.segment_of_parameter[i] = int(space.segments.size());
    space.segments.push_back({int(i), space.elems, elems, -1});
    space.elems += padded(elems);
  }
  return space;
}

std::string to_text(const FlatSpace& space, const Graph& graph) {
  std::string text;
  for (const Segment& s : space.segments)
    text += fmt::format("segment {} offset={} elems={} bucket={}\n",
                        graph.parameters()[std::size_t(s.parameter)].name,
                        s.offset,
                        s.elems,
                        s.bucket);
  for (const Bucket& b : space.buckets)
    text += fmt::format("bucket offset={} elems={}\n", b.offset, b.elems);
  return text;
}

}  // namespace lockstep
