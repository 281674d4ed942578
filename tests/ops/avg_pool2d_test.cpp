// SPDX-License-Identifier: Apache-2.0
#include "core/ops/pooling/avg_pool2d.h"

#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/op_case.h"
#include "tests/ops/pool_cases.h"
#include "tests/reference/pooling.h"

namespace lockstep::test {
namespace {

/// A sum of at most `kernel_h * kernel_w` values below 1, then divided by that number: each of the
/// additions rounds relative to a partial sum below their number.
Tolerance pool_tolerance(const ops::Pool2dAttrs& attrs) {
  return {.c = 2, .n = double(attrs.kernel_h * attrs.kernel_w), .scale = 1};
}

std::vector<OpCase> avg_pool2d_cases() {
  std::vector<OpCase> cases;
  for (const PoolCase& c : pool_cases())
    cases.push_back({c.input.to_string(),
                     std::make_shared<ops::AvgPool2d>(c.attrs),
                     {random_f32(c.input, 1)},
                     {pool_tolerance(c.attrs)}});
  return cases;
}

std::vector<OpCase> avg_pool2d_bwd_cases() {
  std::vector<OpCase> cases;
  for (const PoolCase& c : pool_cases()) {
    const Shape output = ops::pool2d_output("avg_pool2d", c.attrs, {c.input, DType::f32});
    cases.push_back({c.input.to_string(),
                     std::make_shared<ops::AvgPool2dBwd>(c.attrs, c.input),
                     {random_f32(output, 2)},
                     {pool_tolerance(c.attrs)}});
  }
  return cases;
}

LOCKSTEP_OP_TEST(AvgPool2d, avg_pool2d, avg_pool2d_reference, avg_pool2d_cases)
LOCKSTEP_OP_TEST(AvgPool2dBwd, avg_pool2d_bwd, avg_pool2d_bwd_reference, avg_pool2d_bwd_cases)

TEST(AvgPool2dGradient, FiniteDifferences) {
  const ops::Pool2dAttrs attrs{3, 2, 2, 1, 1, 1};
  const Shape input{2, 5, 6, 3};
  const OpCase forward{"x", std::make_shared<ops::AvgPool2d>(attrs), {random_f32(input, 5)}};
  const ReferenceArgs args = reference_args(forward);
  const std::vector<double> dy = random_f32(args.output_types[0].shape, 6).to_double();
  const ops::AvgPool2dBwd bwd(attrs, input);
  const ReferenceArgs bwd_args{bwd, args.output_types, args.input_types, {dy}, "", {}};
  check_gradient(
      "avg_pool2d", avg_pool2d_reference, args, 0, dy, 0, avg_pool2d_bwd_reference(bwd_args)[0]);
}

}  // namespace
}  // namespace lockstep::test
