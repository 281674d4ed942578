// SPDX-License-Identifier: Apache-2.0
// Programs with and without fusion train to the same bits in fp32.
#include <gtest/gtest.h>

#include "tests/parallel/small_runs.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using testing::SmallRun;

void expect_equal_with_and_without_fusion(SmallRun run) {
  const TrainSummary fused = testing::train(run, testing::mpi_world());
  run.options.fuse = false;
  const TrainSummary apart = testing::train(run, testing::mpi_world());
  EXPECT_EQ(fused.weights_sha256, apart.weights_sha256);
  EXPECT_EQ(fused.val_loss, apart.val_loss);
  EXPECT_LE(fused.activation_bytes, apart.activation_bytes);
}

TEST(Fusion, BatchNormWithReluAndResidual) {
  expect_equal_with_and_without_fusion(testing::small_resnet());
}

TEST(Fusion, LayerNormWithResidualAndLinearWithGelu) {
  expect_equal_with_and_without_fusion(testing::small_gpt());
}

TEST(Fusion, ConvolutionAndLinearWithRelu) {
  SmallRun run = testing::small_resnet();
  run.model = [](Builder& nn, Value x) {
    x = nn.relu(nn.conv2d(x, {.out_channels = 8, .kernel = 3, .stride = 2}));
    x = nn.relu(nn.linear(nn.flatten(x), {.out_features = 16}));
    return nn.linear(x, {.out_features = 10});
  };
  expect_equal_with_and_without_fusion(run);
}

TEST(Fusion, BatchNormGroupsOverRanks) {
  SmallRun run = testing::small_resnet();
  run.options.batch_norm = BatchNormPolicy::parse("group:16");
  expect_equal_with_and_without_fusion(run);
}

}  // namespace
}  // namespace lockstep
