// SPDX-License-Identifier: Apache-2.0
#include "core/ops/pooling/global_avg_pool.h"

#include "core/graph/gradient_builder.h"

namespace lockstep::ops {

std::vector<TensorType> GlobalAvgPool::infer(std::span<const TensorType> inputs) const {
  expect_inputs("global_avg_pool", inputs, 1);
  expect_activation("global_avg_pool", "input", inputs[0], 4);
  return {{{inputs[0].shape[0], inputs[0].shape[3]}, inputs[0].dtype}};
}

std::vector<ValueId> GlobalAvgPool::gradient(GradientBuilder& builder,
                                             const Node& node,
                                             std::span<const ValueId> output_grads) const {
  if (!builder.needs_grad(node.inputs[0])) return {kNoValue};
  const Shape& input = builder.type(node.inputs[0]).shape;
  return builder.emit(node, std::make_shared<GlobalAvgPoolBwd>(input), {output_grads[0]});
}

std::string GlobalAvgPoolBwd::attributes() const {
  return fmt::format("input={}x{}", input_[1], input_[2]);
}

std::vector<TensorType> GlobalAvgPoolBwd::infer(std::span<const TensorType> inputs) const {
  expect_inputs("global_avg_pool_bwd", inputs, 1);
  return {{{inputs[0].shape[0], input_[1], input_[2], input_[3]}, inputs[0].dtype}};
}

}  // namespace lockstep::ops
