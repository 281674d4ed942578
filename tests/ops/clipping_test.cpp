// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <limits>

#include "core/exec/gradient_clip.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/ops/clipping_cases.h"
#include "tests/ops/each_isa.h"

namespace lockstep::test {
namespace {

TEST(Clipping, InstructionSetsAgreeWithTheFormulaAndToTheBit) {
  std::vector<std::vector<std::vector<float>>> results;
  for_each_isa([&] { results.push_back(expect_clipping(*make_cpu_backend())); });
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST(Clipping, FactorsAreThoseOfEquationThree) {
  EXPECT_EQ(unit_factor(2, 0.1, 0.125f), 1);
  EXPECT_EQ(unit_factor(2, 0.25, 0.125f), 1);  // at the limit
  EXPECT_EQ(unit_factor(2, 1, 0.125f), 0.25f);
  EXPECT_EQ(unit_factor(0, 1, 0.125f), float(0.125e-3));  // as if the weights had a norm of 0.001
  EXPECT_EQ(unit_factor(0, 0, 0.125f), 1);
}

TEST(Clipping, ALimitThatNoFloatReachesClipsNothing) {
  EXPECT_EQ(unscaled_limit(3e38f, 0.5f), std::numeric_limits<float>::infinity());
  EXPECT_EQ(clipped_value(-1e38f, std::numeric_limits<float>::infinity()), -1e38f);
}

}  // namespace
}  // namespace lockstep::test
