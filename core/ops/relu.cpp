// SPDX-License-Identifier: Apache-2.0
#include "core/ops/relu.h"

#include "core/graph/gradient_builder.h"

namespace lockstep::ops {

std::vector<TensorType> Relu::infer(std::span<const TensorType> inputs) const {
  expect_inputs("relu", inputs, 1);
  expect_activation("relu", "input", inputs[0]);
  return {inputs[0]};
}

std::vector<ValueId> Relu::gradient(GradientBuilder& builder,
                                    const Node& node,
                                    std::span<const ValueId> output_grads) const {
  if (!builder.needs_grad(node.inputs[0])) return {kNoValue};
  return builder.emit(node, std::make_shared<ReluBwd>(), {output_grads[0], node.outputs[0]});
}

std::vector<TensorType> ReluBwd::infer(std::span<const TensorType> inputs) const {
  expect_inputs("relu_bwd", inputs, 2);
  expect_same("relu_bwd", "y", inputs[1], inputs[0]);
  return {inputs[0]};
}

}  // namespace lockstep::ops
