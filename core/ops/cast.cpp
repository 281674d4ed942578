// SPDX-License-Identifier: Apache-2.0
#include "core/ops/cast.h"

#include "core/graph/gradient_builder.h"

namespace lockstep::ops {

std::string Cast::attributes() const { return fmt::format("to={}", name_of(output_)); }

std::vector<TensorType> Cast::infer(std::span<const TensorType> inputs) const {
  expect_inputs("cast", inputs, 1);
  expect_activation("cast", "input", inputs[0]);
  LOCKSTEP_CHECK(is_float(output_) && output_ != inputs[0].dtype,
                 ShapeError,
                 "cast: from f32 to bf16 or back, got {} to {}",
                 inputs[0].to_string(),
                 name_of(output_));
  return {{inputs[0].shape, output_}};
}

std::vector<ValueId> Cast::gradient(GradientBuilder& builder,
                                    const Node& node,
                                    std::span<const ValueId> output_grads) const {
  if (!builder.needs_grad(node.inputs[0])) return {kNoValue};
  return builder.emit(
      node, std::make_shared<Cast>(builder.type(node.inputs[0]).dtype), {output_grads[0]});
}

}  // namespace lockstep::ops
