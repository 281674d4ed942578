// SPDX-License-Identifier: Apache-2.0
// Where gradients lie that are exchanged during backward, checked by running a program's writes one
// after another.
#include "core/plan/gradient_space.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>
#include <span>
#include <vector>

#include "core/nn/trace.h"
#include "lockstep/zoo.h"

namespace lockstep {
namespace {

Graph window_graph(const nn::ModelSpec& spec, const data::SampleSpec& samples) {
  return trace(nn::make_model(spec),
               [](Builder& nn, Value logits, Value labels) {
                 return nn.softmax_cross_entropy(logits, labels, 0.0f, {});
               },
               samples,
               {.mode = Mode::training, .micro_batch = 2});
}

/// Equal layers, and a first one that is twice as large.
Graph window_mlp() {
  data::SampleSpec samples;
  samples.input = {Shape{512}, DType::f32};
  samples.target = {Shape{}, DType::i32};
  samples.classes = 10;
  return window_graph(
      {.name = "mlp", .outputs = 10, .hidden = {256, 256, 256, 256, 256, 256, 256, 256}}, samples);
}

/// Whose tied embedding is more than half of it, and is complete last.
Graph window_gpt() {
  data::SampleSpec samples;
  samples.input = samples.target = {Shape{16}, DType::i32};
  samples.classes = 8000;
  return window_graph(
      {.name = "gpt", .outputs = 8000, .layers = 12, .heads = 2, .width = 64, .context = 16},
      samples);
}

FlatSpace window_space(const Graph& graph, int ranks, bool cuts = true) {
  return lay_out(
      graph,
      1,
      {.ranks = ranks, .ranks_per_host = 1, .cuts_parameters = cuts, .shards_optimizer = true});
}

std::int64_t largest_window_bucket(const FlatSpace& space) {
  std::int64_t largest = 0;
  for (const Bucket& bucket : space.buckets)
    if (bucket.sharded) largest = std::max(largest, bucket.elems);
  return largest;
}

/// Of a run, the bucket that has element `i` of the gradients.
int bucket_in_window(const GradientSpace& places, const GradientReuse& run, std::int64_t i) {
  int b = run.first;
  while (i >= places.place_of(b) + places.buckets()[std::size_t(b)].elems) ++b;
  return b;
}

/// Gaps that no optimizer reads may hold what lay there before: as if cleared.
void clear_long_gaps(const GradientSpace& places,
                     const FlatSpace& space,
                     const GradientReuse& reuse,
                     std::vector<int>& content) {
  for (std::size_t s = 0; s < space.segments.size(); ++s) {
    const Segment& segment = space.segments[s];
    if (segment.bucket < reuse.first || segment.bucket >= reuse.end) continue;
    const std::int64_t begin = places.place_of(segment) + segment.elems;
    const bool is_last = s + 1 == space.segments.size() || space.segments[s + 1].bucket < 0 ||
                         space.segments[s + 1].bucket >= reuse.end;
    const Bucket& last = places.buckets()[std::size_t(reuse.end) - 1];
    const std::int64_t end =
        is_last ? last.offset + last.elems : places.place_of(space.segments[s + 1]);
    if (end - begin < kSegmentAlignment) continue;
    for (std::int64_t i = begin; i < end; ++i)
      content[std::size_t(i)] = bucket_in_window(places, reuse, i);
  }
}

/// Plays a turn: `content` has of each element the bucket whose gradients, or cleared padding, lie
/// there; -1: neither. A bucket is exchanged as late as a step allows.
void expect_that_a_turn_is_right(const GradientSpace& places,
                                 const Graph& graph,
                                 const FlatSpace& space,
                                 std::vector<int>& content) {
  const std::vector<std::vector<int>> reuses = places.reuses_before(graph, space);
  std::set<int> begun, exchanged;
  const auto extent = [&](int b) {
    const Bucket& bucket = places.buckets()[std::size_t(b)];
    return std::span(content).subspan(std::size_t(bucket.offset), std::size_t(bucket.elems));
  };
  const auto expect_whole = [&](int b) {
    EXPECT_TRUE(std::ranges::all_of(extent(b), [&](int is) { return is == b; })) << "bucket " << b;
  };
  for (std::size_t node = 0; node < graph.nodes().size(); ++node) {
    for (const int index : reuses[node]) {
      const GradientReuse& reuse = places.reuses()[std::size_t(index)];
      for (const int b : reuse.after) {
        expect_whole(b);
        EXPECT_TRUE(exchanged.insert(b).second);
      }
      for (int b = reuse.first; b < reuse.end; ++b)
        for (int& is : extent(b)) {
          ASSERT_TRUE(!begun.contains(is) || exchanged.contains(is))
              << is << " overwritten by " << b;
          is = -1;
        }
      for (const GradientStretch& padding : reuse.padding)
        for (std::int64_t i = padding.offset; i < padding.offset + padding.elems; ++i)
          content[std::size_t(i)] = bucket_in_window(places, reuse, i);
      clear_long_gaps(places, space, reuse, content);
    }
    for (const ValueId output : graph.nodes()[node].outputs) {
      const int parameter = graph.value(output).accumulates_into;
      if (parameter < 0) continue;
      const Segment& segment = space.of(parameter);
      const std::int64_t shift = places.place_of(segment) - segment.offset;
      for (int b = segment.bucket; b < int(space.buckets.size()); ++b) {
        const Bucket& bucket = space.buckets[std::size_t(b)];
        const std::int64_t begin = std::max(bucket.offset, segment.offset);
        const std::int64_t end =
            std::min(bucket.offset + bucket.elems, segment.offset + segment.elems);
        if (end <= begin) break;
        std::fill_n(content.begin() + begin + shift, end - begin, b);
        begun.insert(b);
      }
    }
  }
  for (int b = 0; b < int(space.buckets.size()); ++b)
    if (!exchanged.contains(b)) expect_whole(b);
}

/// [elements], once the padding of all buckets was cleared.
std::vector<int> cleared_window(const GradientSpace& places) {
  std::vector<int> content(std::size_t(places.elems()), -1);
  for (std::size_t b = 0; b < places.buckets().size(); ++b)
    std::fill_n(content.begin() + places.buckets()[b].offset, places.buckets()[b].elems, int(b));
  return content;
}

TEST(GradientSpace, NoGradientIsOverwrittenBeforeItsExchange) {
  for (const Graph& graph : {window_mlp(), window_gpt()})
    for (const int ranks : {2, 3, 6})
      for (const int in_flight : {2, 5})
        for (const bool cuts : {true, false}) {
          const FlatSpace space = window_space(graph, ranks, cuts);
          const GradientSpace places(space, graph, in_flight);
          if (!places.divided()) {
            EXPECT_EQ(places.elems(), space.elems);
            EXPECT_FALSE(places.why_whole().empty());
            continue;
          }
          EXPECT_LT(places.elems(), space.elems);
          EXPECT_FALSE(places.reuses().empty());
          std::vector<int> content = cleared_window(places);
          for (int turn = 0; turn < 2; ++turn)
            expect_that_a_turn_is_right(places, graph, space, content);
        }
}

TEST(GradientSpace, IsWhatARankOwnsAndFewBuckets) {
  const Graph graph = window_mlp();
  const int ranks = 4;
  const FlatSpace space = window_space(graph, ranks);
  const GradientSpace places(space, graph, 2);
  ASSERT_TRUE(places.divided()) << places.why_whole();
  EXPECT_EQ(places.elems() - places.window_elems(), Ownership(space, 1).elems());
  // The first layer's weights have two buckets.
  EXPECT_LE(places.window_elems(), 3 * largest_window_bucket(space));
  std::vector<float> gradients(std::size_t(places.elems()));
  const std::vector<float*> summed = places.summed(gradients.data());
  for (std::size_t b = 0; b < space.buckets.size(); ++b) {
    if (!space.buckets[b].sharded) continue;
    const Bucket own = owned_chunk(space, space.buckets[b], 1);
    const OwnedStretch stretch = Ownership(space, 1).within(own.offset, own.elems).front();
    EXPECT_EQ(summed[b] - gradients.data(), own.offset + places.shift_of(stretch));
  }
}

// The embedding has the place of all others, and none waits for more than it must.
TEST(GradientSpace, TheLastBucketsMayHaveThePlaceOfAllOthers) {
  const Graph graph = window_gpt();
  const FlatSpace space = window_space(graph, 4);
  const GradientSpace places(space, graph, 5);
  ASSERT_TRUE(places.divided()) << places.why_whole();
  const GradientReuse& last = places.reuses().back();
  std::int64_t elems = 0;
  for (int b = last.first; b < last.end; ++b) elems += space.buckets[std::size_t(b)].elems;
  EXPECT_GE(places.window_elems(), elems);
  EXPECT_LE(places.window_elems(), elems + largest_window_bucket(space));
  EXPECT_FALSE(last.after.empty());
}

TEST(GradientSpace, SaysWhyGradientsAreWhole) {
  const Graph graph = window_mlp();
  const FlatSpace space = window_space(graph, 2);
  const GradientSpace all(space, graph, 100);
  EXPECT_FALSE(all.divided());
  EXPECT_EQ(all.why_whole(), "the buckets that are exchanged at once are most of the model");
  EXPECT_EQ(GradientSpace(lay_out(graph, 1), graph, 2).why_whole(),
            "no bucket is large enough to be divided");
}

TEST(GradientSpace, DoesNotSuitAProgramThatFinishesGradientsInAnotherOrder) {
  const Graph graph = window_mlp();
  FlatSpace space = window_space(graph, 4);
  const GradientSpace places(space, graph, 2);
  ASSERT_TRUE(places.divided());
  EXPECT_TRUE(places.suits(graph, space));
  // As if parameters changed places in backward.
  for (Segment& segment : space.segments)
    segment.parameter = int(space.segments.size()) - 1 - segment.parameter;
  std::ranges::reverse(space.segment_of_parameter);
  EXPECT_FALSE(places.suits(graph, space));
}

}  // namespace
}  // namespace lockstep
