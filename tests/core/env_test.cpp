// SPDX-License-Identifier: Apache-2.0
#include "core/base/env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/error.h"

namespace lockstep {
namespace {

std::string hint_of(const VariableMap& variables) {
  try {
    parse_env(variables);
  } catch (const ConfigError& error) {
    return error.hint();
  }
  return "no error";
}

TEST(Env, ReadsItsVariablesAndNoOthers) {
  const Env env = parse_env({{"LOCKSTEP_RANK", "3"}, {"LOCKSTEP_DUMP", ""}, {"HOME", "/root"}});
  EXPECT_EQ(env.rank, "3");
  EXPECT_FALSE(env.dump.has_value());
  EXPECT_FALSE(env.world_size.has_value());
}

TEST(Env, MisspeltNameOffersTheNearest) {
  EXPECT_EQ(hint_of({{"LOCKSTEP_RNAK", "1"}}), "did you mean LOCKSTEP_RANK?");
  EXPECT_EQ(hint_of({{"LOCKSTEP_WORLDSIZE", "1"}}), "did you mean LOCKSTEP_WORLD_SIZE?");
  EXPECT_THAT(hint_of({{"LOCKSTEP_ZZZZZZZZZZ", ""}}), ::testing::HasSubstr("unset it"));
}

TEST(Env, PlanHasThreeValues) {
  EXPECT_EQ(parse_env({{"LOCKSTEP_PLAN", "poison"}}).plan, "poison");
  EXPECT_THAT(hint_of({{"LOCKSTEP_PLAN", "of"}}), ::testing::HasSubstr("poison"));
}

TEST(Env, TheSeedOfTestsIsANumber) {
  EXPECT_EQ(parse_env({{"LOCKSTEP_TEST_SEED", "4294967295"}}).test_seed, "4294967295");
  for (const char* const value : {"4294967296", "-1", "7x", "x"})
    EXPECT_THAT(hint_of({{"LOCKSTEP_TEST_SEED", value}}), ::testing::HasSubstr("a number"))
        << value;
}

}  // namespace
}  // namespace lockstep
