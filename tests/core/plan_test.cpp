// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <numeric>
#include <set>

#include "core/base/random.h"
#include "core/plan/arena.h"
#include "core/plan/program_plan.h"
#include "lockstep/error.h"
#include "lockstep/zoo.h"
#include "tests/core/trace_helpers.h"

namespace lockstep {
namespace {

std::vector<BufferLifetime> random_buffers(std::uint64_t seed) {
  RandomStream random(seed, 0);
  const int steps = 1 + int(random.below(40));
  std::vector<BufferLifetime> buffers(random.below(60));
  for (BufferLifetime& b : buffers) {
    b.first = int(random.below(std::uint32_t(steps)));
    b.last = b.first + int(random.below(std::uint32_t(steps - b.first)));
    b.bytes = random.below(5) == 0 ? 0 : random.below(100000);
  }
  return buffers;
}

TEST(Arena, NoOverlapOnThousandsOfRandomPrograms) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const auto buffers = random_buffers(seed);
    const ArenaPlan plan = plan_arena(buffers);
    ASSERT_NO_THROW(verify(plan, buffers)) << "seed " << seed;
    ASSERT_GE(plan.bytes, buffers.empty() ? 0 : arena_lower_bound(buffers)) << "seed " << seed;
  }
}

TEST(Arena, VerifierFindsAnOverlap) {
  const std::vector<BufferLifetime> buffers{{1000, 0, 4}, {1000, 3, 5}};
  ArenaPlan plan = plan_arena(buffers);
  plan.offsets[1] = plan.offsets[0];
  EXPECT_THROW(verify(plan, buffers), InternalError);
}

TEST(Arena, BuffersThatNeverMeetShareMemory) {
  const std::vector<BufferLifetime> buffers{{4096, 0, 1}, {4096, 2, 3}, {4096, 4, 5}};
  EXPECT_EQ(plan_arena(buffers).bytes, 4096u);
}

/// As in a deep network: what forward makes, backward reads in the opposite order, and each step
/// has something of its own.
TEST(Arena, ThousandsOfBuffersOfADeepNetworkTakeNoMoreThanIsLive) {
  constexpr int kLayers = 20'000;
  std::vector<BufferLifetime> buffers;
  for (int i = 0; i < kLayers; ++i) {
    buffers.push_back({1000, i, 2 * kLayers - i});
    buffers.push_back({256, i, i + 1});
    buffers.push_back({256, 2 * kLayers - i - 1, 2 * kLayers - i});
  }
  const ArenaPlan plan = plan_arena(buffers);
  EXPECT_NO_THROW(verify(plan, buffers));
  EXPECT_LE(double(plan.bytes), 1.01 * double(arena_lower_bound(buffers)));
}

TEST(Arena, NoOverlapAmongThousandsOfRandomBuffers) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<BufferLifetime> buffers;
    for (std::uint64_t part = 0; buffers.size() < 5000; ++part)
      for (const BufferLifetime& b : random_buffers(1000 * seed + part)) buffers.push_back(b);
    ArenaPlan plan = plan_arena(buffers);
    ASSERT_NO_THROW(verify(plan, buffers)) << "seed " << seed;
    ASSERT_GE(plan.bytes, arena_lower_bound(buffers)) << "seed " << seed;
    plan.offsets.back() = 0;  // where the first buffers of step 0 lie
    buffers.back() = {1, 0, 0};
    ASSERT_THROW(verify(plan, buffers), InternalError) << "seed " << seed;
  }
}

struct Planned {
  Graph graph;
  FlatSpace space;
  ProgramPlan plan;
};

Planned plan_model(const std::string& name, const Shape& sample, MemoryReuse reuse) {
  Planned p;
  p.graph = trace_classifier(nn::make_model({.name = name}), sample, 10, 4);
  p.space = lay_out(p.graph, 1 << 20);
  p.plan =
      plan_program(p.graph, p.space, std::vector<std::size_t>(p.graph.nodes().size(), 512), reuse);
  return p;
}

/// Replays the program on the plan: each value must still be in its buffer when it is read.
void expect_values_survive(const Planned& p) {
  std::vector<ValueId> owner(p.plan.buffers.size(), kNoValue);
  const auto same_memory = [&](ValueId value) {
    return p.plan.buffer_of_value[std::size_t(value)];
  };
  for (std::size_t i = 0; i < p.graph.input_names().size(); ++i)
    owner[std::size_t(same_memory(p.graph.input_value(int(i))))] = p.graph.input_value(int(i));
  for (const Node& node : p.graph.nodes()) {
    for (ValueId input : node.inputs) {
      const int buffer = same_memory(input);
      if (buffer < 0) continue;
      ASSERT_EQ(owner[std::size_t(buffer)], input) << node.path;
    }
    for (ValueId output : node.outputs) {
      const int buffer = same_memory(output);
      if (buffer < 0) continue;
      // A view leaves its input readable under both names; nothing else may.
      if (node.op->is_view()) {
        for (const Node& later : p.graph.nodes()) {
          if (&later <= &node) continue;
          ASSERT_EQ(std::ranges::count(later.inputs, node.inputs[0]), 0) << node.path;
        }
      }
      owner[std::size_t(buffer)] = output;
    }
  }
}

TEST(ProgramPlan, ValuesSurviveUntilTheirLastReader) {
  for (const char* name : {"mlp", "convnet", "resnet20", "resnet18", "resnet50"})
    for (MemoryReuse reuse : {MemoryReuse::on, MemoryReuse::off})
      expect_values_survive(plan_model(name, {32, 32, 3}, reuse));
}

TEST(ProgramPlan, ReuseNeedsLessMemory) {
  const Planned on = plan_model("resnet20", {32, 32, 3}, MemoryReuse::on);
  const Planned off = plan_model("resnet20", {32, 32, 3}, MemoryReuse::off);
  EXPECT_LT(double(on.plan.arena.bytes), 0.7 * double(off.plan.arena.bytes));
  // Issue 8 asks for 5% above the bound; the greedy plan keeps it for this model already.
  EXPECT_LE(double(on.plan.arena.bytes), 1.05 * double(arena_lower_bound(on.plan.buffers)));
}

TEST(ProgramPlan, EveryBucketCompletesOnceAndInOrder) {
  const Planned p = plan_model("resnet18", {32, 32, 3}, MemoryReuse::on);
  ASSERT_GT(p.space.buckets.size(), 4u);
  std::vector<int> order;
  for (const auto& buckets : p.plan.buckets_after_node)
    order.insert(order.end(), buckets.begin(), buckets.end());
  std::vector<int> expected(p.space.buckets.size());
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = int(i);
  EXPECT_EQ(order, expected);
}

Graph trace_gpt2() {
  data::SampleSpec spec;
  spec.input = spec.target = {{1024}, DType::i32};
  spec.classes = 50257;
  BuilderSettings settings;
  settings.micro_batch = 1;
  return trace(nn::make_model({.name = "gpt2-124m", .outputs = spec.classes}),
               softmax_cross_entropy,
               spec,
               settings);
}

/// Elements of the buckets that are complete after the node that ends backward.
std::int64_t exposed_elems(const Graph& graph, const FlatSpace& space) {
  const ProgramPlan plan =
      plan_program(graph, space, std::vector<std::size_t>(graph.nodes().size()), MemoryReuse::on);
  const auto last = std::ranges::find_if(plan.buckets_after_node.rbegin(),
                                         plan.buckets_after_node.rend(),
                                         [](const auto& buckets) { return !buckets.empty(); });
  std::int64_t elems = 0;
  for (const int bucket : *last) elems += space.buckets[std::size_t(bucket)].elems;
  return elems;
}

// GPT-2's token embedding, which is the weight of the last layer too, is complete last.
TEST(ProgramPlan, NothingWaitsForALargeTensorButItself) {
  const Graph graph = trace_gpt2();
  const FlatSpace space = lay_out(graph, std::int64_t{64} << 20);
  const std::int64_t embedding = 50257 * 768;
  const std::int64_t exposed = exposed_elems(graph, space);
  EXPECT_GE(exposed, embedding);
  EXPECT_LE(exposed, embedding + (std::int64_t{64} << 20) / 4 / 8);
  std::int64_t largest = 0;
  for (const Bucket& bucket : space.buckets) largest = std::max(largest, bucket.elems);
  EXPECT_LE(largest, (std::int64_t{64} << 20) / 4 + 4 * 768 * 768) << "made for one tensor";

  const FlatSpace whole = lay_out(graph, std::int64_t{64} << 20, {.cuts_parameters = false});
  EXPECT_EQ(exposed_elems(graph, whole), exposed);
  EXPECT_LT(whole.buckets.size(), space.buckets.size());
}

TEST(FlatSpace, SegmentsAreAlignedDisjointAndCoverEveryParameter) {
  const Planned p = plan_model("resnet18", {32, 32, 3}, MemoryReuse::on);
  std::int64_t end = 0;
  std::set<int> seen;
  for (const Segment& s : p.space.segments) {
    EXPECT_EQ(s.offset % kSegmentAlignment, 0);
    EXPECT_GE(s.offset, end);
    end = s.offset + s.elems;
    EXPECT_TRUE(seen.insert(s.parameter).second);
    const Bucket& bucket = p.space.buckets[std::size_t(s.bucket)];
    EXPECT_GE(s.offset, bucket.offset);
    EXPECT_LT(s.offset, bucket.offset + bucket.elems);
  }
  EXPECT_EQ(seen.size(), p.graph.parameters().size());
  EXPECT_LE(end, p.space.elems);
}

/// Parameters that have elements in each bucket.
std::vector<std::vector<int>> tensors_of_buckets(const FlatSpace& space) {
  std::vector<std::vector<int>> tensors(space.buckets.size());
  for (const Segment& segment : space.segments) {
    auto b = std::size_t(segment.bucket);
    EXPECT_GE(segment.offset, space.buckets[b].offset);
    while (b < tensors.size() && space.buckets[b].offset < segment.offset + segment.elems)
      tensors[b++].push_back(segment.parameter);
    EXPECT_LE(segment.offset + segment.elems,
              space.buckets[b - 1].offset + space.buckets[b - 1].elems);
  }
  return tensors;
}

/// Of the last bucket's exchange nothing is hidden by backward: it is small, or of one node. No
/// other bucket is larger than the limit and one tensor that is not.
void expect_sizes(const Graph& graph, std::int64_t bytes) {
  const FlatSpace space = lay_out(graph, bytes);
  const std::int64_t limit = std::max<std::int64_t>(1, bytes / 4);
  const std::int64_t piece = std::max<std::int64_t>(limit, 64 * 1024);
  const auto tensors = tensors_of_buckets(space);
  std::int64_t end = 0;
  for (std::size_t b = 0; b < space.buckets.size(); ++b) {
    const Bucket& bucket = space.buckets[b];
    EXPECT_EQ(bucket.offset, end);
    end += bucket.elems;
    ASSERT_FALSE(tensors[b].empty()) << "bucket " << b << " is empty";
    EXPECT_LE(bucket.elems, limit + piece);
  }
  EXPECT_EQ(end, space.elems);
  std::set<ValueId> nodes;
  for (const ValueInfo& value : graph.values())
    if (std::ranges::count(tensors.back(), value.accumulates_into) > 0)
      nodes.insert(value.producer);
  if (space.buckets.size() > 1 && nodes.size() > 1) {
    EXPECT_LE(space.buckets.back().elems, limit / 8);
  }
}

TEST(FlatSpace, BucketsAreAsLargeAsAskedForAndTheLastIsSmall) {
  for (const char* name : {"mlp", "convnet", "resnet20", "resnet18", "resnet50", "vgg16"}) {
    const std::int64_t side = std::string_view(name) == "vgg16" ? 224 : 32;
    const Graph graph = trace_classifier(nn::make_model({.name = name}), {side, side, 3}, 10, 4);
    for (const std::int64_t bytes : {std::int64_t{1},
                                     std::int64_t{1000},
                                     std::int64_t{1} << 16,
                                     std::int64_t{1000001},
                                     std::int64_t{4} << 20,
                                     std::int64_t{1} << 40}) {
      SCOPED_TRACE(fmt::format("{}, {} bytes", name, bytes));
      expect_sizes(graph, bytes);
    }
    EXPECT_EQ(lay_out(graph, std::int64_t{1} << 40).buckets.size(), 1) << name;
  }
  expect_sizes(trace_gpt2(), std::int64_t{64} << 20);
}

// Norms and updates know tensors, not where they lie: other offsets give the same bits.
TEST(FlatSpace, RanksHaveEqualChunksOfAllButSmallBuckets) {
  const Graph graph = trace_classifier(nn::make_model({.name = "resnet18"}), {32, 32, 3}, 10, 4);
  const FlatSpace alone = lay_out(graph, 1 << 20);
  for (const int ranks : {1, 2, 3, 5, 6, 7, 8, 24, 40, 48, 96, 1000, 1024}) {
    const FlatSpace space = lay_out(graph, 1 << 20, {.ranks = ranks});
    EXPECT_LE(double(space.elems), double(alone.elems) * 17 / 16);
    ASSERT_EQ(space.segments.size(), alone.segments.size());
    for (std::size_t i = 0; i < space.segments.size(); ++i) {
      EXPECT_EQ(space.segments[i].parameter, alone.segments[i].parameter);
      EXPECT_EQ(space.segments[i].offset % kSegmentAlignment, 0);
    }
    for (const Bucket& bucket : space.buckets) {
      EXPECT_EQ(bucket.offset % kSegmentAlignment, 0);
      if (bucket.elems >= 16 * std::lcm(std::int64_t{64}, std::int64_t{16} * ranks)) {
        EXPECT_EQ(bucket.elems % (16 * ranks), 0) << ranks << " ranks";
      }
    }
  }
}

TEST(FlatSpace, MicroBatchAndModeDoNotChangeTheParameters) {
  const auto names = [](std::int64_t n, Mode mode) {
    std::vector<std::string> result;
    const Graph graph =
        trace_classifier(nn::make_model({.name = "convnet"}), {28, 28, 1}, 10, n, mode);
    for (const Parameter& p : graph.parameters()) result.push_back(p.name);
    return result;
  };
  EXPECT_EQ(names(32, Mode::training), names(7, Mode::training));
  EXPECT_EQ(names(32, Mode::training), names(32, Mode::evaluation));
}

}  // namespace
}  // namespace lockstep
