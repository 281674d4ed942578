// SPDX-License-Identifier: Apache-2.0
#include "core/ops/embedding/class_token.h"

#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/op_case.h"
#include "tests/reference/transformer.h"

namespace lockstep::test {
namespace {

// Empty, single, vector tails, images and tokens.
std::vector<OpCase> class_token_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{0, 4, 8},
                             Shape{3, 0, 8},
                             Shape{1, 1, 1},
                             Shape{2, 5, 7},
                             Shape{3, 4, 33},
                             Shape{2, 3, 5, 16},
                             Shape{2, 14, 14, 192}}) {
    const std::int64_t width = shape[-1];
    const std::int64_t tokens = shape.rank() == 3 ? shape[1] : shape[1] * shape[2];
    // One addition.
    cases.push_back(
        {shape.to_string(),
         std::make_shared<ops::ClassToken>(),
         {random_f32(shape, 1), random_f32({1, width}, 2), random_f32({tokens + 1, width}, 3)},
         {{.c = 1, .scale = 2}},
         {1, 2}});
  }
  return cases;
}

LOCKSTEP_OP_TEST(ClassToken, class_token, class_token_reference, class_token_cases)

TEST(ClassToken, RefusesTablesOfOtherSizes) {
  const auto infer = [](const Shape& x, const Shape& token, const Shape& positions) {
    const TensorType types[] = {{x, DType::f32}, {token, DType::f32}, {positions, DType::f32}};
    return ops::ClassToken().infer(types)[0].shape;
  };
  EXPECT_EQ(infer({2, 4, 4, 8}, {1, 8}, {17, 8}), (Shape{2, 17, 8}));
  EXPECT_THROW(infer({2, 4, 4, 8}, {1, 8}, {16, 8}), ShapeError);
  EXPECT_THROW(infer({2, 16, 8}, {1, 7}, {17, 8}), ShapeError);
  EXPECT_THROW(infer({2, 16, 8}, {1, 8}, {17, 7}), ShapeError);
  EXPECT_THROW(infer({16, 8}, {1, 8}, {17, 8}), ShapeError);
}

}  // namespace
}  // namespace lockstep::test
