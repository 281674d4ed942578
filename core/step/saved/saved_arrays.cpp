// SPDX-License-Identifier: Apache-2.0
#include "core/step/saved/saved_arrays.h"

#include <algorithm>
#include <numeric>

#include "core/base/check.h"
#include "core/base/env.h"

namespace lockstep {
namespace {

/// Floats that files have of each segment.
std::vector<std::int64_t> saved_elems(const SavedArrays& saved) {
  std::vector<std::int64_t> result;
  for (const Segment& segment : saved.space.segments) {
    const Parameter& parameter = saved.graph.parameters()[std::size_t(segment.parameter)];
    result.push_back(segment.elems *
                     std::ranges::count_if(saved.arrays, [&](const FlatArray& array) {
                       return has(array, parameter);
                     }));
  }
  return result;
}

/// Where parts of at most `most` end, which is no less than any element of `elems`: as indices.
std::vector<std::size_t> ends_of_parts(const std::vector<std::int64_t>& elems, std::int64_t most) {
  std::vector<std::size_t> ends;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < elems.size(); ++i) {
    if (sum + elems[i] > most) {
      ends.push_back(i);
      sum = 0;
    }
    sum += elems[i];
  }
  ends.push_back(elems.size());
  return ends;
}

/// The smallest bound with which `writers` parts are enough.
std::int64_t least_bound(const std::vector<std::int64_t>& elems, int writers) {
  std::int64_t high = std::accumulate(elems.begin(), elems.end(), std::int64_t{0});
  std::int64_t low = elems.empty() ? 0 : *std::ranges::max_element(elems);
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (ends_of_parts(elems, middle).size() <= std::size_t(writers))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

}  // namespace

CheckpointFile file_of(const FlatArray& array) {
  return array.name.empty()           ? CheckpointFile::model
         : array.name == kAverageName ? CheckpointFile::average
                                      : CheckpointFile::optimizer;
}

bool has(const FlatArray& array, const Parameter& parameter) {
  if (file_of(array) != CheckpointFile::optimizer) return parameter.kind != ParameterKind::metric;
  return parameter.kind == ParameterKind::trained && !parameter.frozen;
}

FlatRange copied_range(const SavedArrays& saved, const FlatArray& array, const FlatRange& part) {
  FlatRange copied{.offset = part.offset, .elems = 0};
  for (const Segment& segment : saved.space.segments) {
    if (segment.offset < part.offset || segment.offset >= part.offset + part.elems) continue;
    if (!has(array, saved.graph.parameters()[std::size_t(segment.parameter)])) continue;
    if (copied.elems == 0) copied.offset = segment.offset;
    copied.elems = segment.offset + segment.elems - copied.offset;
  }
  return copied;
}

std::size_t copied_bytes(const SavedArrays& saved, const FlatRange& part) {
  std::size_t elems = 0;
  for (const FlatArray& array : saved.arrays)
    elems += std::size_t(copied_range(saved, array, part).elems);
  return elems * sizeof(float);
}

std::vector<FlatRange> snapshot_parts(const SavedArrays& saved, int writers) {
  LOCKSTEP_ASSERT(writers > 0);
  const std::vector<Segment>& segments = saved.space.segments;
  const std::vector<std::int64_t> elems = saved_elems(saved);
  const std::int64_t bytes =
      std::accumulate(elems.begin(), elems.end(), std::int64_t{0}) * std::int64_t(sizeof(float));
  const bool any_size = env().checkpoint_parts == "small";
  const std::int64_t large = any_size ? writers : std::max<std::int64_t>(1, bytes / kMinPartBytes);
  const int used = int(std::min<std::int64_t>(writers, large));
  std::vector<FlatRange> parts;
  std::int64_t begin = 0;
  for (const std::size_t end : ends_of_parts(elems, least_bound(elems, used))) {
    const std::int64_t until = end < segments.size() ? segments[end].offset : saved.space.elems;
    parts.push_back({.offset = begin, .elems = until - begin});
    begin = until;
  }
  std::iter_swap(parts.begin(), std::ranges::max_element(parts, {}, [&](const FlatRange& part) {
                   return copied_bytes(saved, part);
                 }));
  parts.resize(std::size_t(writers), {.offset = saved.space.elems, .elems = 0});
  return parts;
}

}  // namespace lockstep
