// SPDX-License-Identifier: Apache-2.0
#include "core/ops/activations/relu.h"

#include "core/graph/gradient_builder.h"

namespace lockstep::ops {
namespace {

std::string describe(float limit) {
  return limit == kNoLimit ? std::string() : fmt::format("limit={}", limit);
}

}  // namespace

std::string Relu::attributes() const { return describe(limit_); }

std::vector<TensorType> Relu::infer(std::span<const TensorType> inputs) const {
  expect_inputs("relu", inputs, 1);
  LOCKSTEP_CHECK(limit_ > 0.0f, ShapeError, "relu: its limit must be above 0, got {}", limit_);
  expect_activation("relu", "input", inputs[0]);
  return {inputs[0]};
}

std::vector<ValueId> Relu::gradient(GradientBuilder& builder,
                                    const Node& node,
                                    std::span<const ValueId> output_grads) const {
  if (!builder.needs_grad(node.inputs[0])) return {kNoValue};
  return builder.emit(node, std::make_shared<ReluBwd>(limit_), {output_grads[0], node.outputs[0]});
}

std::string ReluBwd::attributes() const { return describe(limit_); }

std::vector<TensorType> ReluBwd::infer(std::span<const TensorType> inputs) const {
  expect_inputs("relu_bwd", inputs, 2);
  expect_same("relu_bwd", "y", inputs[1], inputs[0]);
  return {inputs[0]};
}

}  // namespace lockstep::ops
