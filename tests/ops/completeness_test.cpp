// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/ops/op_case.h"

namespace lockstep::test {
namespace {

TEST(OpList, EveryKernelOperatorHasATest) {
#define LOCKSTEP_VIEW_OP(Type, stem)
#define LOCKSTEP_OP(Type, stem)                   \
  EXPECT_NE(find_op_suite(OpKind::stem), nullptr) \
      << #stem << " has no LOCKSTEP_OP_TEST in tests/ops";
#include "core/graph/op_list.inc"
#undef LOCKSTEP_OP
}

}  // namespace
}  // namespace lockstep::test
