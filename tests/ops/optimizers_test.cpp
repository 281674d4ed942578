// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/optimizers.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "tests/ops/each_isa.h"
#include "tests/ops/optimizer_cases.h"

namespace lockstep::test {
namespace {

constexpr std::int64_t kElems = 2100;

/// Ranges of every kind of tail, one at an odd address, a gap between them, one empty; two tensors
/// with norms.
const std::vector<FlatRange> kRanges = {{0, 1025, 0.01f, 1.0f, 0},
                                        {1027, 3, 0.0f, 0.5f},
                                        {1030, 0, 0.1f, 1.0f},
                                        {1088, 900, 0.1f, 2.0f, 1},
                                        {1990, 98, 0.1f, 2.0f}};

/// The same ranges, cut at arbitrary places.
std::vector<FlatRange> cut(const std::vector<FlatRange>& ranges) {
  std::vector<FlatRange> pieces;
  for (FlatRange r : ranges)
    for (std::int64_t step = 5; r.elems > 0; step = step * 3 + 1) {
      FlatRange piece = r;
      piece.elems = std::min(step, r.elems);
      r.offset += piece.elems;
      r.elems -= piece.elems;
      pieces.push_back(piece);
    }
  return pieces;
}

TEST(Optimizers, FollowTheirFormulas) {
  for_each_isa([] { expect_formulas(*make_cpu_backend(), kElems, kRanges, cut(kRanges)); });
}

TEST(Sgd, FirstStepReadsNoMomentum) {
  for_each_isa([] {
    const auto backend = make_cpu_backend();
    OptimizerRun clean(*backend, Sgd{.momentum = 0.9f}, std::vector<float>(kElems, 1.0f));
    OptimizerRun filled(*backend, Sgd{.momentum = 0.9f}, std::vector<float>(kElems, 1.0f));
    std::fill_n(filled.state[0]->data(), kElems, NAN);
    const std::vector<float> grads = gradient_values(kElems, 1);
    clean.update(grads, kRanges, 0);
    filled.update(grads, kRanges, 0);
    EXPECT_EQ(filled.params.values(), clean.params.values());
  });
}

// By PyTorch's formula v - a^2 may be rounded to less than 0, whose root is NaN.
TEST(RmsProp, CenteredStaysFiniteUnderConstantGradients) {
  for_each_isa([] {
    const auto backend = make_cpu_backend();
    OptimizerRun run(*backend, RmsProp{.alpha = 0.5f, .centered = true}, std::vector<float>(100));
    const std::vector<FlatRange> all{{0, 100}};
    std::vector<float> grads(100);
    for (std::size_t i = 0; i < grads.size(); ++i) grads[i] = 0.1f + 0.013f * float(i);
    for (std::uint64_t step = 0; step < 60; ++step) run.update(grads, all, step);
    for (const float p : run.params.values()) ASSERT_TRUE(std::isfinite(p));
  });
}

TEST(Lion, StepsByTheRateAgainstTheSign) {
  for_each_isa([] {
    const auto backend = make_cpu_backend();
    OptimizerRun run(*backend, Lion{}, std::vector<float>(4, 1.0f));
    run.update({3.0f, -1e-6f, 0.0f, NAN}, {{0, 4, 0.0f, 1.0f}}, 0);
    const std::vector<float> params = run.params.values();
    EXPECT_EQ(params[0], 1.0f - 0.01f);
    EXPECT_EQ(params[1], 1.0f + 0.01f);
    EXPECT_EQ(params[2], 1.0f);
  });
}

TEST(AdamW, ZeroGradientsOnlyDecay) {
  for_each_isa([] {
    const auto backend = make_cpu_backend();
    const std::vector<float> before = gradient_values(kElems, 1);
    OptimizerRun run(*backend, AdamW{}, before);
    run.update(std::vector<float>(kElems), kRanges, 0);
    const std::vector<float> params = run.params.values();
    EXPECT_FLOAT_EQ(params[0], before[0] * (1 - 0.01f * 0.01f));
    EXPECT_EQ(params[1028], before[1028]) << "this range has no decay";
    EXPECT_EQ(params[1026], before[1026]) << "this element is in no range";
  });
}

}  // namespace
}  // namespace lockstep::test
