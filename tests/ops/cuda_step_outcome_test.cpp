// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_backend.h"
#include "tests/ops/cuda_fixture.h"
#include "tests/ops/step_outcome_cases.h"

namespace lockstep::test {
namespace {

class CudaStepOutcome : public CudaTest {};

/// NaNs may differ in sign and payload.
bool same(double a, double b) { return a == b || (a != a && b != b); }

TEST_F(CudaStepOutcome, FollowsTheFormulaWithTheBitsOfTheCpu) {
  const std::vector<StepOutcome> got = expect_outcomes(backend());
  const std::vector<StepOutcome> want = expect_outcomes(*make_cpu_backend());
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(same(got[i].loss, want[i].loss) && same(got[i].correct, want[i].correct));
    EXPECT_TRUE(same(got[i].counted, want[i].counted));
    EXPECT_TRUE(same(got[i].grad_norm, want[i].grad_norm));
    EXPECT_TRUE(same(got[i].grad_scale, want[i].grad_scale));
    EXPECT_EQ(got[i].bad, want[i].bad);
  }
}

TEST_F(CudaStepOutcome, GovernsUpdates) { expect_outcomes_to_govern_updates(backend()); }

}  // namespace
}  // namespace lockstep::test
