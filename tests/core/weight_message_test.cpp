// SPDX-License-Identifier: Apache-2.0
#include "core/plan/weight_message.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <numeric>

#include "core/plan/ownership.h"
#include "core/plan/precision.h"
#include "lockstep/zoo.h"
#include "tests/core/trace_helpers.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Graph in_bf16(const ModelFunction& model) {
  data::SampleSpec spec;
  spec.input = {{28, 28, 1}, DType::f32};
  spec.target = {Shape{}, DType::i32};
  spec.classes = 10;
  BuilderSettings settings;
  settings.micro_batch = 4;
  settings.precision = Precision::bf16;
  return trace(model, softmax_cross_entropy, spec, settings);
}

Graph mlp() {
  return in_bf16(nn::make_model({.name = "mlp", .outputs = 10, .hidden = {300, 140}}));
}

FlatSpace sharded_by(int ranks, const Graph& graph) {
  return lay_out(graph, 300'000, {.ranks = ranks, .shards_optimizer = true});
}

const Segment& segment_at(const FlatSpace& space, std::int64_t place) {
  return *std::prev(std::ranges::upper_bound(space.segments, place, {}, &Segment::offset));
}

TEST(WeightMessage, HasEveryElementOnceInItsChunksBlock) {
  const Graph graph = mlp();
  for (const int ranks : {2, 3, 4, 7}) {
    SCOPED_TRACE(ranks);
    const FlatSpace space = sharded_by(ranks, graph);
    std::int64_t sharded = 0;
    for (const Bucket& bucket : space.buckets) {
      if (!bucket.sharded) {
        EXPECT_EQ(bucket.bf16_elems, 0);
        continue;
      }
      ++sharded;
      const WeightMessage message = make_weight_message(space, bucket);
      ASSERT_EQ(message.blocks.size(), std::size_t(ranks));
      std::int64_t offset = bucket.offset, place = 0, bf16 = 0, units = 0;
      for (int chunk = 0; chunk < ranks; ++chunk) {
        const WeightBlock& block = message.blocks[std::size_t(chunk)];
        EXPECT_EQ(block.place, place);
        EXPECT_EQ(offset, chunk_of(bucket, chunk, ranks).offset);
        std::int64_t end = block.place;
        for (const WeightPiece& piece : block.pieces) {
          EXPECT_EQ(piece.offset, offset);
          EXPECT_EQ(piece.place, end);
          EXPECT_EQ(piece.place % 8, 0) << "16 bytes, for wide loads";
          for (std::int64_t i = 0; i < piece.elems; i += kSegmentAlignment)
            EXPECT_EQ(piece.bf16, segment_at(space, piece.offset + i).bf16);
          offset += piece.elems;
          end += piece.bf16 ? piece.elems : 2 * piece.elems;
          bf16 += piece.bf16 ? piece.elems : 0;
        }
        EXPECT_LE(end, block.place + block.units);
        place += block.units;
        units += end - block.place;
      }
      EXPECT_EQ(offset, bucket.offset + bucket.elems);
      EXPECT_EQ(message.units(), place);
      EXPECT_LE(16 * (place - units), units) << "padding";
      EXPECT_EQ(bf16, bucket.bf16_elems);
      EXPECT_EQ(weight_bytes(bucket), 2 * units);
    }
    EXPECT_GT(sharded, 1);
  }
}

// Half of the bucket is a table of embeddings: equal blocks would be a third larger.
TEST(WeightMessage, BlocksOfVeryDifferentSizesAreNotPadded) {
  FlatSpace space;
  space.ranks = 2;
  space.segments = {{.parameter = 0, .offset = 0, .elems = 8192, .bucket = 0, .bf16 = false},
                    {.parameter = 1, .offset = 8192, .elems = 8000, .bucket = 0, .bf16 = true}};
  const Bucket bucket{.offset = 0, .elems = 16384, .sharded = true};
  const WeightMessage message = make_weight_message(space, bucket);
  EXPECT_EQ(message.blocks[0].units, 2 * 8192);
  EXPECT_EQ(message.blocks[1].units, 8192);
  const std::vector<WeightRun> runs = weight_runs(space, 64, 8192);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_FALSE(runs[0].bf16);
  EXPECT_EQ(runs[0].elems, 8192 - 64);
  EXPECT_TRUE(runs[1].bf16);
  EXPECT_EQ(runs[1].offset, 8192);
  EXPECT_EQ(runs[1].elems, 64);
}

TEST(WeightMessage, NothingIsRoundedWithoutOwners) {
  const Graph graph = mlp();
  EXPECT_THAT(to_text(sharded_by(2, graph), graph), HasSubstr(" bf16"));
  EXPECT_THAT(to_text(sharded_by(1, graph), graph), Not(HasSubstr("bf16")));
  EXPECT_THAT(to_text(lay_out(graph, 300'000, {.ranks = 2}), graph), Not(HasSubstr("bf16")));
}

std::vector<std::string> names_of_rounded(const Graph& graph) {
  std::vector<std::string> names;
  const std::vector<bool> rounded = bf16_weights(graph);
  for (std::size_t i = 0; i < rounded.size(); ++i)
    if (rounded[i]) names.push_back(graph.parameters()[i].name);
  return names;
}

TEST(Bf16WeightsOf, AGraphAreWhatProductsAloneRead) {
  using ::testing::ElementsAre;
  EXPECT_THAT(names_of_rounded(mlp()), ElementsAre("0.weight", "2.weight", "4.weight"));
  EXPECT_THAT(names_of_rounded(in_bf16([](Builder& nn, Value x) {
                x = nn.conv2d(x, {.out_channels = 8, .name = "conv"});
                x = nn.relu(nn.batch_norm(x, {.name = "bn"}));
                return nn.linear(nn.flatten(x), {.out_features = 10, .name = "head"});
              })),
              ElementsAre("conv.weight", "head.weight"));
  EXPECT_TRUE(names_of_rounded(trace_gpt(false)).empty()) << "fp32";
}

}  // namespace
}  // namespace lockstep
