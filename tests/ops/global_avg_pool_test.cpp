// SPDX-License-Identifier: Apache-2.0
#include "core/ops/pooling/global_avg_pool.h"

#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/op_case.h"
#include "tests/reference/pooling.h"

namespace lockstep::test {
namespace {

const std::vector<Shape> kImageShapes = {{0, 4, 4, 8},
                                         {1, 1, 1, 1},
                                         {2, 3, 5, 3},
                                         {3, 7, 7, 31},
                                         {2, 4, 4, 33},
                                         {2, 4, 4, 64},
                                         {1, 2, 2, 513}};

std::vector<OpCase> global_avg_pool_cases() {
  std::vector<OpCase> cases;
  for (const Shape& x : kImageShapes)
    cases.push_back({x.to_string(),
                     std::make_shared<ops::GlobalAvgPool>(),
                     {random_f32(x, 1)},
                     {{.c = 2, .n = double(x[1] * x[2]), .scale = 1}}});
  return cases;
}

std::vector<OpCase> global_avg_pool_bwd_cases() {
  std::vector<OpCase> cases;
  for (const Shape& x : kImageShapes)
    cases.push_back({x.to_string(),
                     std::make_shared<ops::GlobalAvgPoolBwd>(x),
                     {random_f32({x[0], x[3]}, 2)},
                     {{.c = 3}}});
  return cases;
}

LOCKSTEP_OP_TEST(GlobalAvgPool, global_avg_pool, global_avg_pool_reference, global_avg_pool_cases)
LOCKSTEP_OP_TEST(GlobalAvgPoolBwd,
                 global_avg_pool_bwd,
                 global_avg_pool_bwd_reference,
                 global_avg_pool_bwd_cases)

TEST(GlobalAvgPoolGradient, FiniteDifferences) {
  const Shape input{2, 3, 4, 3};
  const OpCase forward{"x", std::make_shared<ops::GlobalAvgPool>(), {random_f32(input, 5)}};
  const ReferenceArgs args = reference_args(forward);
  const std::vector<double> dy = random_f32(args.output_types[0].shape, 6).to_double();
  const ops::GlobalAvgPoolBwd bwd(input);
  const ReferenceArgs bwd_args{bwd, args.output_types, args.input_types, {dy}, "", {}};
  check_gradient("global_avg_pool",
                 global_avg_pool_reference,
                 args,
                 0,
                 dy,
                 0,
                 global_avg_pool_bwd_reference(bwd_args)[0]);
}

}  // namespace
}  // namespace lockstep::test
