// SPDX-License-Identifier: Apache-2.0
#include "core/ops/activations/swiglu.h"

#include "core/graph/gradient_builder.h"

namespace lockstep::ops {
namespace {

/// Operations an element, counting the exponential as ten.
constexpr double kGateFlops = 15, kGateBwdFlops = 20;

}  // namespace

std::vector<TensorType> Swiglu::infer(std::span<const TensorType> inputs) const {
  expect_inputs("swiglu", inputs, 2);
  expect_activation("swiglu", "gate", inputs[0]);
  expect_same("swiglu", "up", inputs[1], inputs[0]);
  return {inputs[0]};
}

Cost Swiglu::cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  Cost cost = OpBase::cost(inputs, outputs);
  cost.flops = kGateFlops * double(inputs[0].elems());
  return cost;
}

std::vector<ValueId> Swiglu::gradient(GradientBuilder& builder,
                                      const Node& node,
                                      std::span<const ValueId> output_grads) const {
  return builder.emit(
      node, std::make_shared<SwigluBwd>(), {output_grads[0], node.inputs[0], node.inputs[1]});
}

std::vector<TensorType> SwigluBwd::infer(std::span<const TensorType> inputs) const {
  expect_inputs("swiglu_bwd", inputs, 3);
  expect_activation("swiglu_bwd", "dy", inputs[0]);
  expect_same("swiglu_bwd", "gate", inputs[1], inputs[0]);
  expect_same("swiglu_bwd", "up", inputs[2], inputs[0]);
  return {inputs[0], inputs[0]};
}

Cost SwigluBwd::cost(std::span<const TensorType> inputs,
                     std::span<const TensorType> outputs) const {
  Cost cost = OpBase::cost(inputs, outputs);
  cost.flops = kGateBwdFlops * double(inputs[0].elems());
  return cost;
}

}  // namespace lockstep::ops
