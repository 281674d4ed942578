// SPDX-License-Identifier: Apache-2.0
// Runs of a model whose first layer whitens the training images.
#include <algorithm>
#include <gtest/gtest.h>
#include <tuple>
#include <vector>

#include "core/nn/whitening.h"
#include "lockstep/weights.h"
#include "parallel/comm/self_communicator.h"
#include "tests/parallel/discs.h"
#include "tests/parallel/shared_folder.h"
#include "tests/support/device_context.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

using testing::disc_options;
using testing::discs;

constexpr std::int64_t kWhitened = 110, kHeldOut = 37;

/// A model as airbench94, small.
Value whitened_net(Builder& nn, Value x) {
  x = nn.gelu(nn.conv2d(x, {.out_channels = 24, .kernel = 2, .whitening = true, .name = "white"}));
  x = nn.max_pool2d(nn.conv2d(x, {.out_channels = 32, .padding = 1, .dirac_init = true}));
  x = nn.gelu(nn.batch_norm(x, {.momentum = 0.4f, .trains_weight = false}));
  return nn.scale(nn.linear(nn.global_avg_pool(x), {.out_features = 4, .bias = false}), 0.1f);
}

TEST(WhitenedRuns, WhiteningAndAlternatingFlipsHaveEqualBitsOnAnyRanks) {
  const testing::SharedFolder folder;
  TrainOptions options = disc_options();
  options.augmentation = data::parse_augmentation("shift:2,reflect,alternating-flip");
  options.optimizer = Sgd{.lr = 0.1f, .momentum = 0.85f, .nesterov = true, .weight_decay = 1e-3f};
  options.groups = {{.pattern = "batch_norm", .lr = 6.4f, .weight_decay = 2e-5f}};
  options.ema = {.decay = 0.9f};
  const auto run = [&](Communicator& ranks, const data::DataSplit& data) {
    testing::DeviceContext context(ranks);
    Trainer trainer(context, whitened_net, softmax_cross_entropy, options);
    const TrainSummary summary = trainer.fit(data);
    const std::vector<io::NamedTensor> weights = trainer.weights();
    const auto of = [&](const char* name) {
      return std::ranges::find(weights, name, [](const auto& t) { return t.parameter.name; })
          ->values;
    };
    return std::tuple(summary, of("white.weight"), of("batch_norm1.weight"), trainer.weights());
  };
  SelfCommunicator self;
  const data::DataSplit data = discs(kWhitened, kHeldOut, 16);
  const auto [alone, white, scales, weights] = run(self, data);
  // Neither is trained.
  EXPECT_EQ(white, whitening_filters(*data.train, {24, 2, 2, 3}, false));
  EXPECT_EQ(scales, std::vector<float>(32, 1.0f));
  for (const Sharding sharding : {Sharding::none, Sharding::gradients}) {
    options.sharding = sharding;
    const TrainSummary together = std::get<0>(run(testing::mpi_world(), data));
    EXPECT_EQ(together.weights_sha256, alone.weights_sha256);
    EXPECT_EQ(together.val_loss, alone.val_loss);
  }
  // Weights of a file stay, unless they are skipped.
  const std::string file = folder / "weights.safetensors";
  if (testing::mpi_world().rank() == 0) io::save_weights(file, weights);
  testing::mpi_world().barrier();
  options.sharding = Sharding::none;
  options.init = file;
  data::DataSplit others = discs(kWhitened, kHeldOut, 24);
  EXPECT_EQ(std::get<1>(run(self, others)), white);
  options.init_skip = {"white"};
  EXPECT_EQ(std::get<1>(run(self, others)), whitening_filters(*others.train, {24, 2, 2, 3}, false));
  EXPECT_NE(std::get<1>(run(self, others)), white);
}

}  // namespace
}  // namespace lockstep
