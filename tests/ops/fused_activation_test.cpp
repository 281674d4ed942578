// SPDX-License-Identifier: Apache-2.0
// Products that have taken in an activation: the same bits as the operators apart.
#include <gtest/gtest.h>

#include "core/ops/activations/gelu.h"
#include "core/ops/activations/relu.h"
#include "core/ops/conv2d.h"
#include "core/ops/linear.h"
#include "kernels/cpu/kernel_list.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/each_isa.h"
#include "tests/ops/op_case.h"

namespace lockstep::test {
namespace {

template <typename Op, typename Factory>
std::vector<HostTensor> run(const std::shared_ptr<Op>& op,
                            const std::vector<HostTensor>& inputs,
                            std::vector<int> parameters,
                            Factory factory) {
  const OpCase test_case{"fused", op, inputs, {}, std::move(parameters)};
  return run_kernel(test_case,
                    [&](const KernelSpec& spec) { return factory(op_cast<Op>(spec.op), spec); });
}

HostTensor apply(ops::Activation activation, const HostTensor& x) {
  if (activation == ops::Activation::relu)
    return run(std::make_shared<ops::Relu>(), {x}, {}, cpu::make_relu_kernel)[0];
  const auto kind =
      activation == ops::Activation::gelu_erf ? ops::GeluKind::erf : ops::GeluKind::tanh;
  return run(std::make_shared<ops::Gelu>(kind), {x}, {}, cpu::make_gelu_kernel)[0];
}

constexpr ops::Activation kActivations[] = {
    ops::Activation::relu, ops::Activation::gelu_erf, ops::Activation::gelu_tanh};

TEST(FusedActivation, LinearHasTheBitsOfItsParts) {
  for_each_isa([] {
    for (const auto& [rows, in, out] : {std::array{5, 7, 3}, {64, 128, 512}, {33, 600, 700}})
      for (const bool bf16 : {false, true})
        for (const ops::Activation activation : kActivations) {
          const HostTensor x = random_f32({rows, in}, 1);
          const std::vector<HostTensor> inputs{
              bf16 ? rounded_to_bf16(x) : x, random_f32({out, in}, 2), random_f32({out}, 3)};
          const auto linear = [&](ops::Activation a, bool training) {
            return run(std::make_shared<ops::Linear>(true, a, training),
                       inputs,
                       {1, 2},
                       cpu::make_linear_kernel);
          };
          const auto plain = linear(ops::Activation::none, false);
          const HostTensor expected = apply(activation, plain[0]);
          EXPECT_EQ(linear(activation, false)[0].bytes, expected.bytes);
          const auto training = linear(activation, true);
          EXPECT_EQ(training[0].bytes, expected.bytes);
          ASSERT_EQ(training.size(), ops::is_gelu(activation) ? 2u : 1u);
          EXPECT_EQ(training.back().bytes,
                    ops::is_gelu(activation) ? plain[0].bytes : expected.bytes);
        }
  });
}

TEST(FusedActivation, LinearBwdDataHasTheBitsOfItsParts) {
  for_each_isa([] {
    for (const auto& [rows, out, in] : {std::array{5, 3, 7}, {64, 128, 512}, {33, 700, 600}})
      for (const bool bf16 : {false, true})
        for (const ops::GeluKind kind : {ops::GeluKind::erf, ops::GeluKind::tanh}) {
          HostTensor dy = random_f32({rows, out}, 1), h = random_f32({rows, in}, 3, -4, 4);
          if (bf16) dy = rounded_to_bf16(dy), h = rounded_to_bf16(h);
          const HostTensor weight = random_f32({out, in}, 2);
          const auto factory = cpu::make_linear_bwd_data_kernel;
          const HostTensor dx =
              run(std::make_shared<ops::LinearBwdData>(), {dy, weight}, {1}, factory)[0];
          const HostTensor expected =
              run(std::make_shared<ops::GeluBwd>(kind), {dx, h}, {}, cpu::make_gelu_bwd_kernel)[0];
          const auto gelu =
              kind == ops::GeluKind::erf ? ops::Activation::gelu_erf : ops::Activation::gelu_tanh;
          const auto fused = std::make_shared<ops::LinearBwdData>(gelu);
          EXPECT_EQ(run(fused, {dy, weight, h}, {1}, factory)[0].bytes, expected.bytes);
        }
  });
}

TEST(FusedActivation, Conv2dHasTheBitsOfItsParts) {
  for_each_isa([] {
    for (const bool bf16 : {false, true}) {
      const HostTensor x = random_f32({2, 9, 8, 16}, 1);
      const std::vector<HostTensor> inputs{
          bf16 ? rounded_to_bf16(x) : x, random_f32({32, 3, 3, 16}, 2), random_f32({32}, 3)};
      const auto conv = [&](bool relu) {
        const ops::Conv2dAttrs attrs{.padding_h = 1, .padding_w = 1, .bias = true, .relu = relu};
        return run(
            std::make_shared<ops::Conv2d>(attrs), inputs, {1, 2}, cpu::make_conv2d_kernel)[0];
      };
      EXPECT_EQ(conv(true).bytes, apply(ops::Activation::relu, conv(false)).bytes);
    }
  });
}

}  // namespace
}  // namespace lockstep::test
