// SPDX-License-Identifier: Apache-2.0
#include "core/ops/scale.h"

#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/op_case.h"
#include "tests/reference/elementwise.h"

namespace lockstep::test {
namespace {

std::vector<OpCase> scale_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{0, 7}, Shape{1}, Shape{33}, Shape{2, 5, 64}})
    for (float factor : {0.0f, 0.7f, -8.0f})
      // One rounding.
      cases.push_back({shape.to_string(),
                       std::make_shared<ops::Scale>(factor),
                       {random_f32(shape, 1)},
                       {{.c = 1}}});
  cases.push_back({"bf16",
                   std::make_shared<ops::Scale>(0.7f),
                   {rounded_to_bf16(random_f32({5, 33}, 1))},
                   {{.c = 1}}});
  return cases;
}

LOCKSTEP_OP_TEST(Scale, scale, scale_reference, scale_cases)

}  // namespace
}  // namespace lockstep::test
