// SPDX-License-Identifier: Apache-2.0
// Training in bf16 learns what training in fp32 learns.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <vector>

#include "lockstep/data/sources.h"
#include "lockstep/trainer.h"
#include "lockstep/zoo.h"
#include "tests/support/device_context.h"
#include "tests/support/mpi_world.h"

namespace lockstep {
namespace {

TrainSummary train(Precision precision, std::uint64_t seed) {
  TrainOptions options{.global_batch = 64, .micro_batch = 32, .steps = 120};
  options.optimizer = AdamW{.lr = 2e-3f};
  options.precision = precision;
  options.seed = seed;
  options.log_every = 0;
  testing::DeviceContext context(testing::mpi_world());
  Trainer trainer(
      context, nn::make_model({.name = "convnet", .outputs = 10}), softmax_cross_entropy, options);
  return trainer.fit(data::glyphs(2048, 512));
}

/// The seeds of fp32 say how far runs lie apart that are equally good.
TEST(Bf16Training, LossIsThatOfFp32) {
  constexpr int kSeeds = 4;
  double sum = 0, squares = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const double loss = train(Precision::fp32, std::uint64_t(seed)).val_loss;
    sum += loss;
    squares += loss * loss;
  }
  const double mean = sum / kSeeds;
  const double deviation = std::sqrt(std::max(0.0, squares - sum * mean) / (kSeeds - 1));
  ASSERT_LT(mean, 1.0) << "of ten classes nothing was learnt: ln 10 is 2.3";
  const TrainSummary bf16 = train(Precision::bf16, 0);
  // A run of the same kind lies within 5.8 estimated deviations of the mean of four in 99% of all
  // cases: Student's t with three degrees of freedom.
  EXPECT_LT(bf16.val_loss, mean + 5.8 * std::sqrt(1 + 1.0 / kSeeds) * deviation);
  // Other bits, or bf16 was not computed in.
  EXPECT_NE(bf16.weights_sha256, train(Precision::fp32, 0).weights_sha256);
}

}  // namespace
}  // namespace lockstep
