// SPDX-License-Identifier: Apache-2.0
#include "core/ops/mean_squared_error.h"

#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/op_case.h"
#include "tests/reference/losses.h"

namespace lockstep::test {
namespace {

OpCase loss_case(std::int64_t samples, std::int64_t features, bool gradient) {
  const float weight = 1.0f / 64;
  // Squared differences below 4, summed over the features in fp32 and over samples in fp64.
  return {fmt::format("{} samples of {}", samples, features),
          std::make_shared<ops::MeanSquaredError>(gradient),
          {random_f32({samples, features}, 1),
           random_f32({samples, features}, 2),
           f32_tensor({1}, {weight})},
          {{.c = 2, .n = double(features), .scale = 4 * double(weight) * double(samples)},
           {.c = 4, .scale = 4 * double(weight) / double(features)}}};
}

std::vector<OpCase> squared_error_cases() {
  std::vector<OpCase> cases;
  for (std::int64_t features : {1, 3, 10, 31, 33, 1025})
    for (std::int64_t samples : {0, 1, 5, 33})
      for (bool gradient : {true, false}) cases.push_back(loss_case(samples, features, gradient));
  return cases;
}

LOCKSTEP_OP_TEST(MeanSquaredError,
                 mean_squared_error,
                 mean_squared_error_reference,
                 squared_error_cases)

TEST(MeanSquaredErrorGradient, FiniteDifferences) {
  const ReferenceArgs args = reference_args(loss_case(5, 3, true));
  check_gradient("mean_squared_error",
                 mean_squared_error_reference,
                 args,
                 0,
                 {1.0},
                 0,
                 mean_squared_error_reference(args)[1]);
}

}  // namespace
}  // namespace lockstep::test
