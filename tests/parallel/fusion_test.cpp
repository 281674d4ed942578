// SPDX-License-Identifier: Apache-2.0
// Programs with and without fusion train to the same bits in fp32.
#include <gtest/gtest.h>

#include "tests/parallel/small_runs.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using testing::SmallRun;

/// `kept_more`: bytes that fused operators keep for backward beyond what others keep.
void expect_equal_with_and_without_fusion(SmallRun run, std::size_t kept_more = 0) {
  const TrainSummary fused = testing::train(run, testing::mpi_world());
  run.options.fuse = false;
  const TrainSummary apart = testing::train(run, testing::mpi_world());
  EXPECT_EQ(fused.weights_sha256, apart.weights_sha256);
  EXPECT_EQ(fused.val_loss, apart.val_loss);
  // The search for an arena ends with one that may be some thousandths larger than it must be.
  EXPECT_LE(double(fused.activation_bytes),
            double(apart.activation_bytes) * 1.005 + double(kept_more));
}

/// Batch norm with ReLU keeps scale and shift as well, two floats a channel. In resnet20 that are
/// three layers of 32 channels and three of 64 (with 16 it fits into the 256 bytes that a buffer
/// has at least).
constexpr std::size_t kScaleAndShift = 2 * sizeof(float) * (3 * 32 + 3 * 64);

TEST(Fusion, BatchNormWithReluAndResidual) {
  expect_equal_with_and_without_fusion(testing::small_resnet(), kScaleAndShift);
}

TEST(Fusion, LayerNormWithResidualAndLinearWithGelu) {
  expect_equal_with_and_without_fusion(testing::small_gpt());
}

TEST(Fusion, RmsNormWithResidual) { expect_equal_with_and_without_fusion(testing::small_llama()); }

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
  expect_equal_with_and_without_fusion(run, kScaleAndShift);
}

}  // namespace
}  // namespace lockstep
