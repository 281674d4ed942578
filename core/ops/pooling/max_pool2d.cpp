// SPDX-License-Identifier: Apache-2.0
#include "core/ops/pooling/max_pool2d.h"

#include "core/graph/gradient_builder.h"

namespace lockstep::ops {

std::vector<TensorType> MaxPool2d::infer(std::span<const TensorType> inputs) const {
  expect_inputs("max_pool2d", inputs, 1);
  const Shape output = pool2d_output("max_pool2d", attrs_, inputs[0]);
  return {{output, inputs[0].dtype}, {output, DType::u8}};
}

std::vector<ValueId> MaxPool2d::gradient(GradientBuilder& builder,
                                         const Node& node,
                                         std::span<const ValueId> output_grads) const {
  if (!builder.needs_grad(node.inputs[0])) return {kNoValue};
  const Shape& input = builder.type(node.inputs[0]).shape;
  return builder.emit(
      node, std::make_shared<MaxPool2dBwd>(attrs_, input), {output_grads[0], node.outputs[1]});
}

std::string MaxPool2dBwd::attributes() const {
  return fmt::format("{} input={}x{}", to_string(attrs_), input_[1], input_[2]);
}

std::vector<TensorType> MaxPool2dBwd::infer(std::span<const TensorType> inputs) const {
  expect_inputs("max_pool2d_bwd", inputs, 2);
  expect_same("max_pool2d_bwd", "winner", inputs[1], {inputs[0].shape, DType::u8});
  return {{{inputs[0].shape[0], input_[1], input_[2], input_[3]}, inputs[0].dtype}};
}

}  // namespace lockstep::ops
