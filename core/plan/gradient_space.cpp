// SPDX-License-Identifier: Apache-2.0
#include "core/plan/gradient_space.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/plan/arena.h"

namespace lockstep {
namespace {

/// Buckets [first, end) that lie one after another.
struct Run {
  int first = 0, end = 0;
  std::int64_t offset = 0, elems = 0;  ///< in the flat space
  bool has_sharded = false, has_small = false;
};

/// Nodes that write gradients of a bucket; first > last: none.
struct Writers {
  int first = 0, last = -1;
};

bool holds_some(const Bucket& bucket, const Segment& segment) {
  return bucket.offset < segment.offset + segment.elems &&
         segment.offset < bucket.offset + bucket.elems;
}

std::vector<Writers> writers_of(const Graph& graph, const FlatSpace& space) {
  std::vector<Writers> writers(space.buckets.size(), {.first = int(graph.nodes().size())});
  for (const ValueInfo& value : graph.values()) {
    if (value.accumulates_into < 0) continue;
    const Segment& segment = space.of(value.accumulates_into);
    for (auto b = std::size_t(segment.bucket); b < writers.size(); ++b) {
      if (!holds_some(space.buckets[b], segment)) break;
      writers[b].first = std::min(writers[b].first, int(value.producer));
      writers[b].last = std::max(writers[b].last, int(value.producer));
    }
  }
  return writers;
}

/// Those that have sharded buckets.
std::vector<Run> runs_of(const FlatSpace& space) {
  std::vector<bool> begins(space.buckets.size(), true);
  for (const Segment& segment : space.segments) {
    if (segment.bucket < 0) continue;
    for (auto b = std::size_t(segment.bucket) + 1; b < begins.size(); ++b) {
      if (!holds_some(space.buckets[b], segment)) break;
      begins[b] = false;
    }
  }
  std::vector<Run> runs;
  for (std::size_t b = 0; b < begins.size(); ++b) {
    const Bucket& bucket = space.buckets[b];
    if (begins[b]) {
      if (!runs.empty() && !runs.back().has_sharded) runs.pop_back();
      runs.push_back({.first = int(b), .offset = bucket.offset});
    }
    Run& run = runs.back();
    run.end = int(b) + 1;
    run.elems += bucket.elems;
    (bucket.sharded ? run.has_sharded : run.has_small) = true;
  }
  if (!runs.empty() && !runs.back().has_sharded) runs.pop_back();
  return runs;
}

/// A step is a run being written.
std::vector<BufferLifetime> lives_of(std::span<const Run> runs,
                                     std::span<const Writers> writers,
                                     int in_flight) {
  const int last = int(runs.size()) - 1;
  std::vector<BufferLifetime> lives;
  for (int r = 0; r <= last; ++r) {
    int end = r == last ? last : std::min(r + in_flight - 1, last - 1);
    const auto is_written_with = [&](int other) {
      return writers[std::size_t(runs[std::size_t(other)].first)].first <=
             writers[std::size_t(runs[std::size_t(r)].end) - 1].last;
    };
    while (end < last && (runs[std::size_t(r)].has_small || is_written_with(end + 1))) ++end;
    lives.push_back({.bytes = std::size_t(runs[std::size_t(r)].elems) * sizeof(float),
                     .first = r,
                     .last = end});
  }
  return lives;
}

/// What no tensor of the run has, but for gaps too long to be read, with `shift` added to its
/// offsets.
std::vector<GradientStretch> padding_of(const FlatSpace& space,
                                        const Run& run,
                                        std::int64_t shift) {
  std::vector<GradientStretch> padding;
  std::int64_t at = run.offset;
  const auto skip_to = [&](std::int64_t next) {
    if (next > at && next - at < kSegmentAlignment)
      padding.push_back({.offset = at + shift, .elems = next - at});
  };
  for (const Segment& segment : space.segments) {
    if (segment.bucket < run.first || segment.bucket >= run.end) continue;
    skip_to(segment.offset);
    at = segment.offset + segment.elems;
  }
  skip_to(run.offset + run.elems);
  return padding;
}

}  // namespace

GradientSpace::GradientSpace(const FlatSpace& space, std::string why_whole) {
  keep_whole(space, std::move(why_whole));
}

GradientSpace::GradientSpace(const FlatSpace& space, const Graph& graph, int in_flight) {
  place_runs(space, graph, in_flight);
  if (divided_ && elems_ >= space.elems)
    keep_whole(space, "the buckets that are exchanged at once are most of the model");
}

void GradientSpace::keep_whole(const FlatSpace& space, std::string why) {
  divided_ = false;
  why_whole_ = std::move(why);
  elems_ = space.elems;
  window_elems_ = 0;
  buckets_ = space.buckets;
  shift_.clear();
  summed_.clear();
  reuses_.clear();
}

void GradientSpace::place_runs(const FlatSpace& space, const Graph& graph, int in_flight) {
  const std::vector<Run> runs = runs_of(space);
  if (runs.empty()) return keep_whole(space, "no bucket is large enough to be divided");
  const std::vector<Writers> writers = writers_of(graph, space);
  const std::vector<BufferLifetime> lives = lives_of(runs, writers, in_flight);
  const ArenaPlan window = plan_arena(lives);
  verify(window, lives);

  divided_ = true;
  buckets_ = space.buckets;
  std::int64_t owned = 0;
  for (Bucket& bucket : buckets_) {
    shift_.push_back(owned - bucket.offset);
    summed_.push_back(-1);
    owned += bucket.sharded ? bucket.elems / space.ranks : bucket.elems;
  }
  window_elems_ = std::int64_t(window.bytes / sizeof(float));
  elems_ = owned + window_elems_;
  std::vector<bool> is_over(buckets_.size(), false);  // waited for by a run before
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const Run& run = runs[r];
    const auto place = owned + std::int64_t(window.offsets[r] / sizeof(float));
    for (auto b = std::size_t(run.first); b < std::size_t(run.end); ++b) {
      summed_[b] = shift_[b] + buckets_[b].offset;
      shift_[b] = place - run.offset;
    }
    GradientReuse reuse{.first = run.first, .end = run.end, .after = {}, .padding = {}};
    bool shares = false;
    for (std::size_t other = 0; other < runs.size(); ++other) {
      const bool meets = other != r &&
                         window.offsets[r] < window.offsets[other] + lives[other].bytes &&
                         window.offsets[other] < window.offsets[r] + lives[r].bytes;
      shares |= meets;
      for (int b = runs[other].first; meets && other < r && b < runs[other].end; ++b) {
        if (!is_over[std::size_t(b)]) reuse.after.push_back(b);
        is_over[std::size_t(b)] = true;
      }
    }
    if (!shares) continue;
    reuse.padding = padding_of(space, run, place - run.offset);
    reuses_.push_back(std::move(reuse));
  }
  for (std::size_t b = 0; b < buckets_.size(); ++b) buckets_[b].offset += shift_[b];
  // Metrics and statistics are found by offsets of the flat space.
  for (const Segment& segment : space.segments)
    if (segment.bucket >= 0 && shift_[std::size_t(segment.bucket)] != 0 &&
        graph.parameters()[std::size_t(segment.parameter)].kind != ParameterKind::trained)
      return keep_whole(space, "a statistic is complete after a gradient");
}

std::vector<float*> GradientSpace::summed(float* gradients) const {
  std::vector<float*> places;
  for (const std::int64_t offset : summed_)
    places.push_back(offset < 0 ? nullptr : gradients + offset);
  return places;
}

std::int64_t GradientSpace::place_of(const Segment& segment) const {
  LOCKSTEP_ASSERT(!divided_ || segment.bucket >= 0);
  return segment.offset + (divided_ ? shift_[std::size_t(segment.bucket)] : 0);
}

std::int64_t GradientSpace::shift_of(const OwnedStretch& stretch) const {
  LOCKSTEP_ASSERT(!divided_ || stretch.local < elems_ - window_elems_);
  return divided_ ? stretch.local - stretch.offset : 0;
}

std::optional<std::vector<std::vector<int>>> GradientSpace::find_reuses(
    const Graph& graph, const FlatSpace& space) const {
  std::vector<std::vector<int>> before(graph.nodes().size());
  if (reuses_.empty()) return before;
  const std::vector<Writers> writers = writers_of(graph, space);
  int reused_before = 0;  // the node
  for (std::size_t i = 0; i < reuses_.size(); ++i) {
    const int first = writers[std::size_t(reuses_[i].first)].first;
    // A reuse does not wait for what one before it has waited for.
    bool in_order = first >= reused_before;
    for (int b = reuses_[i].first; b < reuses_[i].end; ++b)
      in_order &= writers[std::size_t(b)].first >= first;
    for (const int b : reuses_[i].after) in_order &= writers[std::size_t(b)].last < first;
    if (!in_order) return std::nullopt;
    reused_before = first;
    if (first < int(before.size())) before[std::size_t(first)].push_back(int(i));
  }
  return before;
}

bool GradientSpace::suits(const Graph& graph, const FlatSpace& space) const {
  return find_reuses(graph, space).has_value();
}

std::vector<std::vector<int>> GradientSpace::reuses_before(const Graph& graph,
                                                           const FlatSpace& space) const {
  auto before = find_reuses(graph, space);
  LOCKSTEP_ASSERT(before.has_value());
  return std::move(*before);
}

}  // namespace lockstep
