// SPDX-License-Identifier: Apache-2.0
#include "core/ops/channel_scale.h"

#include "core/graph/gradient_builder.h"

namespace lockstep::ops {
namespace {

void expect_factors(std::string_view op, const TensorType& x, const TensorType& gamma) {
  LOCKSTEP_CHECK(
      x.shape.rank() >= 2, ShapeError, "{}: input must be [N, ..., C], got {}", op, x.to_string());
  expect_same(op, "gamma", gamma, {{x.shape[-1]}, DType::f32});
}

}  // namespace

std::vector<TensorType> ChannelScale::infer(std::span<const TensorType> inputs) const {
  expect_inputs("channel_scale", inputs, 2);
  expect_activation("channel_scale", "input", inputs[0]);
  expect_factors("channel_scale", inputs[0], inputs[1]);
  return {inputs[0]};
}

std::vector<ValueId> ChannelScale::gradient(GradientBuilder& builder,
                                            const Node& node,
                                            std::span<const ValueId> output_grads) const {
  return builder.emit(
      node, std::make_shared<ChannelScaleBwd>(), {output_grads[0], node.inputs[0], node.inputs[1]});
}

std::vector<TensorType> ChannelScaleBwd::infer(std::span<const TensorType> inputs) const {
  expect_inputs("channel_scale_bwd", inputs, 3);
  expect_activation("channel_scale_bwd", "dy", inputs[0]);
  expect_same("channel_scale_bwd", "x", inputs[1], inputs[0]);
  expect_factors("channel_scale_bwd", inputs[0], inputs[2]);
  return {inputs[0], inputs[2]};
}

Cost ChannelScaleBwd::cost(std::span<const TensorType> inputs,
                           std::span<const TensorType> outputs) const {
  Cost cost = OpBase::cost(inputs, outputs);
  cost.flops = 3.0 * double(inputs[0].elems());
  return cost;
}

}  // namespace lockstep::ops
