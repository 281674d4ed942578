// SPDX-License-Identifier: Apache-2.0
#include "core/ops/matmul.h"

#include "kernels/cpu/kernel_list.h"
#include "lockstep/error.h"
#include "tests/ops/op_case.h"
#include "tests/ops/product_tolerance.h"
#include "tests/reference/linear.h"

namespace lockstep::test {
namespace {

std::vector<OpCase> matmul_cases() {
  struct Size {
    std::int64_t m, n, k;
  };
  std::vector<OpCase> cases;
  for (const auto& [m, n, k] : {Size{1, 1, 1}, {7, 33, 5}, {32, 64, 31}, {65, 17, 130}})
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        for (const auto& [alpha, beta] : {std::pair{1.0f, 0.0f}, {2.0315f, -4.775f}}) {
          const Shape a = transpose_a ? Shape{k, m} : Shape{m, k};
          const Shape b = transpose_b ? Shape{n, k} : Shape{k, n};
          OpCase c{fmt::format("{}x{}x{} {}{} {}", m, n, k, transpose_a, transpose_b, beta),
                   std::make_shared<ops::Matmul>(
                       ops::Matmul::Attrs{transpose_a, transpose_b, alpha, beta}),
                   {random_f32(a, 1), random_f32(b, 2)},
                   {of_products(k)}};
          // The factors are below 5, the summand is below 1.
          c.tolerances[0].scale = 5 * (c.tolerances[0].scale + 1);
          if (beta != 0) c.inputs.push_back(random_f32({m, n}, 3));
          cases.push_back(c);
        }
  return cases;
}

LOCKSTEP_OP_TEST(Matmul, matmul, matmul_reference, matmul_cases)

TEST(Matmul, ShapesThatDoNotFitAreRefused) {
  const TensorType wide{{2, 3}, DType::f32}, empty{{0, 2}, DType::f32};
  EXPECT_THROW(ops::Matmul({}).infer(std::vector{wide, wide}), ShapeError);
  EXPECT_THROW(ops::Matmul({}).infer(std::vector{empty, wide}), ShapeError);
  EXPECT_THROW(ops::Matmul({.beta = 1}).infer(std::vector{wide, TensorType{{3, 4}, DType::f32}}),
               ShapeError);
  EXPECT_THROW(ops::Matmul({.transpose_b = true, .beta = 1}).infer(std::vector{wide, wide, wide}),
               ShapeError);
}

}  // namespace
}  // namespace lockstep::test
