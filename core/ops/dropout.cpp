// SPDX-License-Identifier: Apache-2.0
#include "core/ops/dropout.h"

#include "core/graph/gradient_builder.h"

namespace lockstep::ops {

std::string Dropout::attributes() const {
  return fmt::format("rate={}{}", rate_, whole_samples_ ? " samples" : "");
}

std::vector<TensorType> Dropout::infer(std::span<const TensorType> inputs) const {
  expect_inputs("dropout", inputs, 1);
  expect_activation("dropout", "input", inputs[0]);
  LOCKSTEP_CHECK(inputs[0].shape.rank() >= 1, ShapeError, "dropout: input has no samples");
  LOCKSTEP_CHECK(
      rate_ >= 0.0f && rate_ < 1.0f, ShapeError, "dropout: rate must be in [0, 1), got {}", rate_);
  return {inputs[0]};
}

std::vector<ValueId> Dropout::gradient(GradientBuilder& builder,
                                       const Node& node,
                                       std::span<const ValueId> output_grads) const {
  if (!builder.needs_grad(node.inputs[0])) return {kNoValue};
  return builder.emit(node, std::make_shared<Dropout>(rate_, whole_samples_), {output_grads[0]});
}

}  // namespace lockstep::ops
