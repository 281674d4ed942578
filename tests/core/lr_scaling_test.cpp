// SPDX-License-Identifier: Apache-2.0
#include "lockstep/lr_scaling.h"

#include <cmath>
#include <gtest/gtest.h>

#include "lockstep/error.h"

namespace lockstep {
namespace {

using Rule = LrScaling::Rule;

TEST(LrScaling, IsTheRatioOfBatchesOrItsRoot) {
  EXPECT_EQ(lr_factor({.reference_batch = 256}, 1024), 4);
  EXPECT_EQ(lr_factor({.reference_batch = 256}, 64), 0.25);
  EXPECT_EQ(lr_factor({.reference_batch = 256, .rule = Rule::sqrt}, 1024), 2);
  EXPECT_EQ(lr_factor({.reference_batch = 256, .rule = Rule::sqrt}, 64), 0.5);
  EXPECT_EQ(scaled_lr({.reference_batch = 100}, 300, 0.1f), float(3 * double(0.1f)));
}

TEST(LrScaling, OffLeavesEveryRateAsItIs) {
  EXPECT_EQ(lr_factor({}, 1024), 1);
  EXPECT_EQ(lr_factor({.rule = Rule::sqrt}, 1024), 1);
  EXPECT_EQ(scaled_lr({}, 1024, 0.1f), 0.1f);
  EXPECT_FALSE(LrScaling{}.on());
}

TEST(LrScaling, TextHasRuleAndBatch) {
  EXPECT_EQ(to_string(LrScaling{}), "none");
  EXPECT_EQ(to_string(LrScaling{.reference_batch = 256}), "linear reference_batch=256");
  EXPECT_EQ(to_string(LrScaling{.reference_batch = 8, .rule = Rule::sqrt}),
            "sqrt reference_batch=8");
}

TEST(LrScaling, NonsenseIsRefused) {
  EXPECT_NO_THROW(validate({.reference_batch = 1}, 1.0f, 1 << 20));
  EXPECT_THROW(validate({.reference_batch = -1}, 1.0f, 256), ConfigError);
  EXPECT_THROW(validate({.reference_batch = 1}, 3e38f, 256), ConfigError);
}

}  // namespace
}  // namespace lockstep
