// SPDX-License-Identifier: Apache-2.0
#include "core/ops/conv2d.h"

#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/op_case.h"
#include "tests/ops/product_tolerance.h"
#include "tests/reference/conv2d.h"

namespace lockstep::test {
namespace {

struct ConvCase {
  std::string name;
  Shape x, w;
  ops::Conv2dAttrs attrs;
};

const std::vector<ConvCase>& conv_cases() {
  static const std::vector<ConvCase> cases = {
      {"first layer of the convnet", {3, 28, 28, 1}, {32, 3, 3, 1}, {1, 1, 1, 1, 1, true}},
      {"second layer of the convnet", {2, 14, 14, 32}, {64, 3, 3, 32}, {1, 1, 1, 1, 1, false}},
      {"first layer of a ResNet", {2, 17, 17, 3}, {64, 7, 7, 3}, {2, 2, 3, 3, 1, false}},
      {"strided 1x1", {2, 9, 9, 16}, {32, 1, 1, 16}, {2, 2, 0, 0, 1, false}},
      {"strided 3x3, remainder", {2, 8, 10, 16}, {32, 3, 3, 16}, {2, 2, 1, 1, 1, true}},
      {"odd channels", {2, 7, 5, 5}, {7, 3, 3, 5}, {1, 1, 1, 1, 1, true}},
      {"one of everything", {1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 0, 0, 1, true}},
      {"rectangular", {2, 9, 6, 4}, {6, 1, 3, 4}, {2, 1, 0, 1, 1, true}},
      {"grouped", {2, 6, 6, 8}, {12, 3, 3, 4}, {1, 1, 1, 1, 2, true}},
      {"depthwise", {2, 6, 6, 16}, {16, 3, 3, 1}, {1, 1, 1, 1, 16, false}},
      {"depthwise, bias, tiles and rests", {2, 9, 17, 20}, {20, 3, 3, 1}, {1, 1, 1, 1, 20, true}},
      {"depthwise, strided", {2, 10, 19, 33}, {33, 3, 3, 1}, {2, 2, 1, 1, 33, false}},
      {"depthwise, strided without padding", {1, 7, 16, 8}, {8, 3, 3, 1}, {2, 2, 0, 0, 8, true}},
      {"depthwise 7x7", {1, 9, 15, 40}, {40, 7, 7, 1}, {1, 1, 3, 3, 40, true}},
      {"depthwise 7x7 on a smaller image", {2, 4, 3, 16}, {16, 7, 7, 1}, {1, 1, 3, 3, 16, false}},
      {"depthwise 5x5, strided", {2, 6, 7, 5}, {5, 5, 5, 1}, {2, 2, 2, 2, 5, true}},
      {"depthwise, rectangular", {2, 5, 9, 6}, {6, 5, 3, 1}, {2, 1, 0, 4, 6, false}},
      {"depthwise, wide image", {1, 3, 58, 16}, {16, 3, 3, 1}, {1, 1, 1, 1, 16, false}},
      {"depthwise, wide image, strided", {1, 3, 57, 32}, {32, 3, 3, 1}, {2, 2, 1, 1, 32, true}},
      {"two filters a channel", {2, 6, 6, 8}, {16, 3, 3, 1}, {1, 1, 1, 1, 8, true}},
      {"padding wider than the kernel", {1, 3, 3, 3}, {4, 2, 2, 3}, {1, 1, 3, 2, 1, true}},
      {"no samples", {0, 8, 8, 4}, {8, 3, 3, 4}, {1, 1, 1, 1, 1, true}},
      {"no input channels", {2, 4, 4, 0}, {3, 3, 3, 0}, {1, 1, 1, 1, 1, true}},
      {"no filters", {2, 4, 4, 3}, {0, 3, 3, 3}, {1, 1, 1, 1, 1, true}},
  };
  return cases;
}

Shape output_of(const ConvCase& c) {
  std::vector<TensorType> inputs{{c.x, DType::f32}, {c.w, DType::f32}};
  if (c.attrs.bias) inputs.push_back({{c.w[0]}, DType::f32});
  return ops::Conv2d(c.attrs).infer(inputs)[0].shape;
}

std::vector<OpCase> forward_cases() {
  std::vector<OpCase> cases;
  for (const ConvCase& c : conv_cases()) {
    OpCase test{c.name,
                std::make_shared<ops::Conv2d>(c.attrs),
                {random_f32(c.x, 1), random_f32(c.w, 2)},
                {of_products(c.w[1] * c.w[2] * c.w[3])},
                {1}};
    if (c.attrs.bias) {
      test.inputs.push_back(random_f32({c.w[0]}, 3));
      test.parameters.push_back(2);
    }
    cases.push_back(test);
  }
  return cases;
}

std::vector<OpCase> conv2d_bwd_data_cases() {
  std::vector<OpCase> cases;
  for (const ConvCase& c : conv_cases())
    cases.push_back({c.name,
                     std::make_shared<ops::Conv2dBwdData>(c.attrs, c.x),
                     {random_f32(output_of(c), 4), random_f32(c.w, 5)},
                     {of_products(c.w[0] / c.attrs.groups * c.w[1] * c.w[2])},
                     {1}});
  return cases;
}

std::vector<OpCase> bwd_weights_cases() {
  std::vector<OpCase> cases;
  for (const ConvCase& c : conv_cases()) {
    const Shape y = output_of(c);
    const Tolerance tolerance = of_products(y[0] * y[1] * y[2]);
    cases.push_back({c.name,
                     std::make_shared<ops::Conv2dBwdWeights>(c.attrs, c.w),
                     {random_f32(c.x, 6), random_f32(y, 7)},
                     {tolerance, tolerance}});
  }
  return cases;
}

LOCKSTEP_OP_TEST(Conv2d, conv2d, conv2d_reference, forward_cases)
LOCKSTEP_OP_TEST(Conv2dBwdData, conv2d_bwd_data, conv2d_bwd_data_reference, conv2d_bwd_data_cases)
LOCKSTEP_OP_TEST(Conv2dBwdWeights,
                 conv2d_bwd_weights,
                 conv2d_bwd_weights_reference,
                 bwd_weights_cases)

TEST(Conv2dGradient, FiniteDifferences) {
  const ops::Conv2dAttrs attrs{2, 1, 1, 1, 2, true};
  const OpCase forward{
      "x",
      std::make_shared<ops::Conv2d>(attrs),
      {random_f32({2, 4, 3, 4}, 1), random_f32({6, 3, 2, 2}, 2), random_f32({6}, 3)}};
  const ReferenceArgs args = reference_args(forward);
  const HostTensor dy = random_f32(args.output_types[0].shape, 4);
  const Shape &x = args.input_types[0].shape, &w = args.input_types[1].shape;
  const auto dx = conv2d_bwd_data_reference(reference_args(
      {"dx", std::make_shared<ops::Conv2dBwdData>(attrs, x), {dy, forward.inputs[1]}}));
  const auto dw = conv2d_bwd_weights_reference(reference_args(
      {"dw", std::make_shared<ops::Conv2dBwdWeights>(attrs, w), {forward.inputs[0], dy}}));
  check_gradient("conv2d x", conv2d_reference, args, 0, dy.to_double(), 0, dx[0]);
  check_gradient("conv2d W", conv2d_reference, args, 0, dy.to_double(), 1, dw[0]);
  check_gradient("conv2d b", conv2d_reference, args, 0, dy.to_double(), 2, dw[1]);
}

}  // namespace
}  // namespace lockstep::test
