// SPDX-License-Identifier: Apache-2.0
#include "core/ops/scale.h"

#include "core/graph/gradient_builder.h"

namespace lockstep::ops {

std::string Scale::attributes() const { return fmt::format("factor={}", factor_); }

std::vector<TensorType> Scale::infer(std::span<const TensorType> inputs) const {
  expect_inputs("scale", inputs, 1);
  expect_activation("scale", "input", inputs[0]);
  return {inputs[0]};
}

std::vector<ValueId> Scale::gradient(GradientBuilder& builder,
                                     const Node& node,
                                     std::span<const ValueId> output_grads) const {
  if (!builder.needs_grad(node.inputs[0])) return {kNoValue};
  return builder.emit(node, std::make_shared<Scale>(factor_), {output_grads[0]});
}

}  // namespace lockstep::ops
