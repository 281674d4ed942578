// SPDX-License-Identifier: Apache-2.0
// Products that have taken in an activation. The library may apply GELU to sums that are not
// rounded yet, so that bits are not those of the operators apart.
#include <cmath>
#include <limits>

#include "core/ops/conv2d.h"
#include "core/ops/linear.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/cuda_fixture.h"
#include "tests/ops/op_case.h"
#include "tests/ops/product_tolerance.h"
#include "tests/reference/conv2d.h"
#include "tests/reference/linear.h"
#include "tests/reference/transformer.h"

namespace lockstep::test {
namespace {

double activated(ops::Activation activation, double x) {
  if (activation == ops::Activation::relu) return x < 0 ? 0.0 : x;
  return gelu_value(activation == ops::Activation::gelu_erf, x);
}

ReferenceOutputs activated_linear(const ReferenceArgs& args) {
  const auto& op = op_cast<ops::Linear>(args.op);
  ReferenceOutputs outputs = linear_reference(args);
  if (op.keeps_input_of_activation()) outputs.push_back(outputs[0]);
  for (double& y : outputs[0]) y = activated(op.activation(), y);
  return outputs;
}

ReferenceOutputs activated_conv2d(const ReferenceArgs& args) {
  ReferenceOutputs outputs = conv2d_reference(args);
  for (double& y : outputs[0]) y = activated(ops::Activation::relu, y);
  return outputs;
}

ReferenceOutputs gelu_gradient_of_linear(const ReferenceArgs& args) {
  const bool erf = op_cast<ops::LinearBwdData>(args.op).before() == ops::Activation::gelu_erf;
  ReferenceOutputs outputs = linear_bwd_data_reference(args);
  for (std::size_t i = 0; i < outputs[0].size(); ++i)
    outputs[0][i] *= gelu_slope(erf, args.inputs[2][i]);
  return outputs;
}

/// Of an activation, or GELU's slope, after sums of `n` products: the slope is at most 1.13, their
/// own errors are those of their tests (8 roundings of 1.13 at most), and where its argument was
/// rounded to bf16, so was a value of up to 4.5 standard deviations, 1.5 sqrt(n), and a bias of 1.
Tolerance behind_products(std::int64_t n, bool bf16) {
  const double root = std::sqrt(double(n)), largest = 1.5 * root + 1;
  const Tolerance products = of_products(n);
  double allowed = 1.13 * products.c * 0x1p-24 * root * products.scale + 9 * 0x1p-24 * largest;
  if (bf16) allowed += 1.13 * 0x1p-8 * largest;
  return {.c = allowed / (0x1p-24 * root), .n = double(n), .scale = 1};
}

class CudaFusedActivation : public CudaTest {
 protected:
  void check(OpCase test_case, std::int64_t products, Reference reference) {
    const auto factory = [this](const KernelSpec& spec) { return backend().make_kernel(spec); };
    const TestMemory memory{backend(), /*exact=*/true};
    for (const bool bf16 : {false, true}) {
      if (bf16) test_case = *bf16_variant(test_case);
      test_case.tolerances = {behind_products(products, bf16), of_products(products)};
      check_case(test_case, factory, reference, memory);
    }
  }
};

TEST_F(CudaFusedActivation, Linear) {
  // Rows of the result that start at multiples of 16 bytes, and others.
  for (const auto& [rows, in, out] :
       {std::array{5, 7, 3}, {9, 24, 40}, {64, 128, 96}, {33, 60, 70}, {0, 4, 8}, {4, 0, 8}})
    for (const bool bias : {false, true})
      for (const bool training : {false, true})
        for (const auto activation :
             {ops::Activation::relu, ops::Activation::gelu_erf, ops::Activation::gelu_tanh}) {
          OpCase test_case{fmt::format("{}x{}->{}", rows, in, out),
                           std::make_shared<ops::Linear>(bias, activation, training),
                           {random_f32({rows, in}, 1), random_f32({out, in}, 2)}};
          test_case.parameters = {1};
          if (bias) {
            test_case.inputs.push_back(random_f32({out}, 3));
            test_case.parameters.push_back(2);
          }
          check(test_case, std::max(in, 1), activated_linear);
        }
}

TEST_F(CudaFusedActivation, LinearBwdData) {
  for (const auto& [rows, out, in] :
       {std::array{5, 3, 7}, {9, 40, 24}, {64, 96, 128}, {33, 70, 60}, {0, 8, 4}, {4, 0, 8}})
    for (const ops::Activation gelu : {ops::Activation::gelu_erf, ops::Activation::gelu_tanh})
      check({.name = fmt::format("{}x{}->{}", rows, out, in),
             .op = std::make_shared<ops::LinearBwdData>(gelu),
             .inputs = {random_f32({rows, out}, 1),
                        random_f32({out, in}, 2),
                        random_f32({rows, in}, 3, -4, 4)},
             .parameters = {1}},
            std::max(out, 1),
            gelu_gradient_of_linear);
}

TEST_F(CudaFusedActivation, Conv2d) {
  const ops::Conv2dAttrs attrs{.padding_h = 1, .padding_w = 1, .bias = true, .relu = true};
  const OpCase test_case{
      .name = "relu",
      .op = std::make_shared<ops::Conv2d>(attrs),
      .inputs = {random_f32({2, 9, 8, 16}, 1), random_f32({32, 3, 3, 16}, 2), random_f32({32}, 3)},
      .parameters = {1, 2}};
  check(test_case, 9 * 16, activated_conv2d);
}

TEST_F(CudaFusedActivation, NanPassesReluBehindProducts) {
  // In fp32 the first is small, the second the library's.
  for (const std::int64_t rows : {4, 260}) {
    OpCase linear{
        .name = fmt::format("NaN in {} rows", rows),
        .op = std::make_shared<ops::Linear>(true, ops::Activation::relu),
        .inputs = {random_f32({rows, 16}, 1), random_f32({24, 16}, 2), random_f32({24}, 3)},
        .parameters = {1, 2}};
    linear.inputs[0].as<float>()[20] = std::numeric_limits<float>::quiet_NaN();
    check(linear, 16, activated_linear);
  }
  const ops::Conv2dAttrs attrs{.bias = true, .relu = true};
  OpCase conv{
      .name = "NaN",
      .op = std::make_shared<ops::Conv2d>(attrs),
      .inputs = {random_f32({1, 5, 5, 8}, 1), random_f32({16, 3, 3, 8}, 2), random_f32({16}, 3)},
      .parameters = {1, 2}};
  conv.inputs[0].as<float>()[100] = std::numeric_limits<float>::quiet_NaN();
  check(conv, 9 * 8, activated_conv2d);
}

}  // namespace
}  // namespace lockstep::test
