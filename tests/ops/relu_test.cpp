// SPDX-License-Identifier: Apache-2.0
#include "core/ops/activations/relu.h"

#include <cmath>
#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/op_case.h"
#include "tests/reference/elementwise.h"

namespace lockstep::test {
namespace {

// The last few: as many fp32 elements as one block does on a GPU, and more.
const std::vector<Shape> kShapes = {{0, 7},
                                    {1},
                                    {31},
                                    {33},
                                    {120, 10},
                                    {1025},
                                    {2, 5, 7, 3},
                                    {0, 4, 4, 2},
                                    {4095},
                                    {4096},
                                    {4097},
                                    {4, 16, 16, 8},
                                    {20003}};

std::vector<OpCase> relu_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : kShapes)
    cases.push_back(
        {shape.to_string(), std::make_shared<ops::Relu>(), {random_f32(shape, 1)}, {{.c = 0}}});
  for (const Shape& shape : kShapes)
    cases.push_back({shape.to_string() + " up to 0.5",
                     std::make_shared<ops::Relu>(0.5f),
                     {random_f32(shape, 1)},
                     {{.c = 0}}});
  std::vector<float> special = {NAN, -NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-45f, -1e-45f};
  for (int i = 0; i < 12; ++i) special.push_back(float(i) - 6);
  for (const float limit : {ops::kNoLimit, 3.0f})
    cases.push_back({fmt::format("NaN stays NaN, limit {}", limit),
                     std::make_shared<ops::Relu>(limit),
                     {f32_tensor({std::int64_t(special.size())}, special)},
                     {{.c = 0}}});
  return cases;
}

std::vector<OpCase> relu_bwd_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : kShapes)
    cases.push_back({shape.to_string(),
                     std::make_shared<ops::ReluBwd>(),
                     {random_f32(shape, 2), random_f32(shape, 3)},
                     {{.c = 0}}});
  // y as ReLU6 leaves it: 0, 6, and what is between.
  const std::vector<float> y = {0, 6, 3, 1e-45f, std::nextafter(6.0f, 0.0f), 6, 0, 5.96875f, -0.0f};
  const Shape few{std::int64_t(y.size())};
  cases.push_back({"ReLU6",
                   std::make_shared<ops::ReluBwd>(6.0f),
                   {random_f32(few, 2), f32_tensor(few, y)},
                   {{.c = 0}}});
  return cases;
}

LOCKSTEP_OP_TEST(Relu, relu, relu_reference, relu_cases)
LOCKSTEP_OP_TEST(ReluBwd, relu_bwd, relu_bwd_reference, relu_bwd_cases)

TEST(ReluGradient, FiniteDifferences) {
  OpCase forward{"x", std::make_shared<ops::Relu>(), {random_f32({33}, 4)}};
  // Away from the kink at zero.
  for (int i = 0; i < 33; ++i)
    if (std::abs(forward.inputs[0].as<float>()[i]) < 0.01f) forward.inputs[0].as<float>()[i] = 0.5f;
  const ReferenceArgs args = reference_args(forward);
  const std::vector<double> dy = random_f32({33}, 5).to_double();
  const ops::ReluBwd bwd;
  const ReferenceArgs bwd_args{bwd, {}, {}, {dy, relu_reference(args)[0]}, "layer", RunState{}};
  check_gradient("relu", relu_reference, args, 0, dy, 0, relu_bwd_reference(bwd_args)[0]);
}

}  // namespace
}  // namespace lockstep::test
