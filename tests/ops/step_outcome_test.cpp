// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "tests/ops/step_outcome_cases.h"

namespace lockstep::test {
namespace {

TEST(StepOutcome, FollowsTheFormula) { expect_outcomes(*make_cpu_backend()); }
TEST(StepOutcome, GovernsUpdates) { expect_outcomes_to_govern_updates(*make_cpu_backend()); }

}  // namespace
}  // namespace lockstep::test
