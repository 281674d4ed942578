// SPDX-License-Identifier: Apache-2.0
#include "core/ops/activations/gelu.h"

#include "core/graph/gradient_builder.h"

namespace lockstep::ops {
namespace {

/// Operations an element, counting the exponential as ten.
constexpr double kForwardFlops = 20, kBackwardFlops = 30;

Cost with_flops(Cost cost, double flops) {
  cost.flops = flops;
  return cost;
}

}  // namespace

std::string_view name_of(GeluKind kind) { return kind == GeluKind::erf ? "erf" : "tanh"; }

std::string Gelu::attributes() const { return std::string(name_of(gelu_)); }

std::vector<TensorType> Gelu::infer(std::span<const TensorType> inputs) const {
  expect_inputs("gelu", inputs, 1);
  expect_activation("gelu", "input", inputs[0]);
  return {inputs[0]};
}

Cost Gelu::cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  return with_flops(OpBase::cost(inputs, outputs), kForwardFlops * double(inputs[0].elems()));
}

std::vector<ValueId> Gelu::gradient(GradientBuilder& builder,
                                    const Node& node,
                                    std::span<const ValueId> output_grads) const {
  if (!builder.needs_grad(node.inputs[0])) return {kNoValue};
  return builder.emit(node, std::make_shared<GeluBwd>(gelu_), {output_grads[0], node.inputs[0]});
}

std::string GeluBwd::attributes() const { return std::string(name_of(gelu_)); }

std::vector<TensorType> GeluBwd::infer(std::span<const TensorType> inputs) const {
  expect_inputs("gelu_bwd", inputs, 2);
  expect_activation("gelu_bwd", "dy", inputs[0]);
  expect_same("gelu_bwd", "x", inputs[1], inputs[0]);
  return {inputs[0]};
}

Cost GeluBwd::cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  return with_flops(OpBase::cost(inputs, outputs), kBackwardFlops * double(inputs[0].elems()));
}

}  // namespace lockstep::ops
