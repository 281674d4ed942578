// SPDX-License-Identifier: Apache-2.0
#include "core/ops/pooling/avg_pool2d.h"

#include "core/graph/gradient_builder.h"

namespace lockstep::ops {

std::vector<TensorType> AvgPool2d::infer(std::span<const TensorType> inputs) const {
  expect_inputs("avg_pool2d", inputs, 1);
  return {{pool2d_output("avg_pool2d", attrs_, inputs[0]), inputs[0].dtype}};
}

std::vector<ValueId> AvgPool2d::gradient(GradientBuilder& builder,
                                         const Node& node,
                                         std::span<const ValueId> output_grads) const {
  if (!builder.needs_grad(node.inputs[0])) return {kNoValue};
  const Shape& input = builder.type(node.inputs[0]).shape;
  return builder.emit(node, std::make_shared<AvgPool2dBwd>(attrs_, input), {output_grads[0]});
}

std::string AvgPool2dBwd::attributes() const {
  return fmt::format("{} input={}x{}", to_string(attrs_), input_[1], input_[2]);
}

std::vector<TensorType> AvgPool2dBwd::infer(std::span<const TensorType> inputs) const {
  expect_inputs("avg_pool2d_bwd", inputs, 1);
  return {{{inputs[0].shape[0], input_[1], input_[2], input_[3]}, inputs[0].dtype}};
}

}  // namespace lockstep::ops
