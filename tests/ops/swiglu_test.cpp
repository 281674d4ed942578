// SPDX-License-Identifier: Apache-2.0
#include "core/ops/activations/swiglu.h"

#include <cmath>
#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/op_case.h"
#include "tests/reference/llama.h"

namespace lockstep::test {
namespace {

const std::vector<Shape> kGateShapes = {{0, 7}, {1}, {15}, {33}, {3, 64}, {2, 5, 129}};

// The logistic function passes four roundings (the exponential's 1.25 ulp, a sum, a quotient, a
// product), silu two more, the product with up one, all relative to the result; a bf16 device's
// exponential, within 2^-22 and 2^-24 |gate|, is far below the rounding of what is stored.
std::vector<OpCase> swiglu_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : kGateShapes)
    for (float range : {1.0f, 12.0f})
      cases.push_back({fmt::format("{} below {}", shape.to_string(), range),
                       std::make_shared<ops::Swiglu>(),
                       {random_f32(shape, 1, -range, range), random_f32(shape, 2)},
                       {{.c = 8, .scale = double(range)}}});
  cases.push_back({"far out",
                   std::make_shared<ops::Swiglu>(),
                   {f32_tensor({6}, {NAN, 0.0f, 1e30f, -1e30f, 100.0f, -200.0f}),
                    f32_tensor({6}, {1, 1, 1, 1, 1, 1})},
                   {{.c = 1, .scale = 0x1p-100}}});
  return cases;
}

std::vector<OpCase> swiglu_bwd_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : kGateShapes)
    for (float range : {1.0f, 12.0f})
      cases.push_back(
          {fmt::format("{} below {}", shape.to_string(), range),
           std::make_shared<ops::SwigluBwd>(),
           {random_f32(shape, 3), random_f32(shape, 1, -range, range), random_f32(shape, 2)},
           // The slope of silu is 1.1 at most, its two terms 1 and 0.3.
           {{.c = 10, .scale = 1.3}, {.c = 8, .scale = double(range)}}});
  return cases;
}

LOCKSTEP_OP_TEST(Swiglu, swiglu, swiglu_reference, swiglu_cases)
LOCKSTEP_OP_TEST(SwigluBwd, swiglu_bwd, swiglu_bwd_reference, swiglu_bwd_cases)

TEST(SwigluGradient, FiniteDifferences) {
  const OpCase forward{
      "x", std::make_shared<ops::Swiglu>(), {random_f32({40}, 4, -5, 5), random_f32({40}, 6)}};
  const HostTensor dy = random_f32({40}, 5);
  const auto grads = swiglu_bwd_reference(reference_args(
      {"dx", std::make_shared<ops::SwigluBwd>(), {dy, forward.inputs[0], forward.inputs[1]}}));
  for (int input : {0, 1})
    check_gradient("swiglu",
                   swiglu_reference,
                   reference_args(forward),
                   0,
                   dy.to_double(),
                   input,
                   grads[std::size_t(input)]);
}

}  // namespace
}  // namespace lockstep::test
