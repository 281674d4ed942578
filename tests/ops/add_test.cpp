// SPDX-License-Identifier: Apache-2.0
#include "core/ops/add.h"

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/op_case.h"
#include "tests/reference/elementwise.h"

namespace lockstep::test {
namespace {

std::vector<OpCase> add_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape :
       std::vector<Shape>{{0, 3}, {1}, {31}, {33}, {1025}, {2, 5, 7, 3}, {4, 16, 16, 8}})
    cases.push_back({shape.to_string(),
                     std::make_shared<ops::Add>(),
                     {random_f32(shape, 1), random_f32(shape, 2)},
                     {{.c = 1, .scale = 2}}});  // one rounding of values below 2
  return cases;
}

LOCKSTEP_OP_TEST(Add, add, add_reference, add_cases)

}  // namespace
}  // namespace lockstep::test
