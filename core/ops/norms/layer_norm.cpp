// SPDX-License-Identifier: Apache-2.0
#include "core/ops/norms/layer_norm.h"

#include "core/graph/gradient_builder.h"

namespace lockstep::ops {
namespace {

std::int64_t rows_of(const TensorType& x) { return x.elems() / x.shape[-1]; }

}  // namespace

std::string LayerNorm::attributes() const {
  return fmt::format("eps={}{}{}", eps_, bias_ ? " bias" : "", residual_ ? " residual" : "");
}

std::vector<TensorType> LayerNorm::infer(std::span<const TensorType> inputs) const {
  expect_inputs("layer_norm", inputs, 2 + std::size_t(bias_) + std::size_t(residual_));
  const TensorType& x = inputs[0];
  expect_activation("layer_norm", "input", x);
  LOCKSTEP_CHECK(x.shape.rank() >= 2 && x.shape[-1] >= 1,
                 ShapeError,
                 "layer_norm: input must be [N, ..., C] with C >= 1, got {}",
                 x.to_string());
  expect_same("layer_norm", "weight", inputs[1], {{x.shape[-1]}});
  if (bias_) expect_same("layer_norm", "bias", inputs[2], {{x.shape[-1]}});
  if (residual_) expect_same("layer_norm", "residual", inputs.back(), x);
  std::vector<TensorType> types{x, {{rows_of(x), 2}, DType::f32}};
  if (residual_) types.push_back(x);
  return types;
}

Cost LayerNorm::cost(std::span<const TensorType> inputs,
                     std::span<const TensorType> outputs) const {
  Cost cost = OpBase::cost(inputs, outputs);
  cost.flops = (residual_ ? 9.0 : 8.0) * double(inputs[0].elems());
  return cost;
}

std::vector<ValueId> LayerNorm::gradient(GradientBuilder& builder,
                                         const Node& node,
                                         std::span<const ValueId> output_grads) const {
  std::vector<ValueId> grads(node.inputs.size(), kNoValue);
  const ValueId x = residual_ ? node.outputs[2] : node.inputs[0];
  const ValueId dsum = residual_ ? output_grads[2] : kNoValue;
  if (output_grads[0] == kNoValue) {
    if (residual_) grads[0] = grads.back() = dsum;
    return grads;
  }
  std::vector<ValueId> inputs{x, output_grads[0], node.inputs[1], node.outputs[1]};
  if (dsum != kNoValue) inputs.push_back(dsum);
  const auto out = builder.emit(
      node, std::make_shared<LayerNormBwd>(bias_, dsum != kNoValue), std::move(inputs));
  grads[0] = out[0];
  grads[1] = out[1];
  if (bias_) grads[2] = out[2];
  if (residual_) grads.back() = out[0];
  return grads;
}

std::string LayerNormBwd::attributes() const {
  return fmt::format("{}{}", bias_ ? "bias" : "", residual_ ? " residual" : "");
}

std::vector<TensorType> LayerNormBwd::infer(std::span<const TensorType> inputs) const {
  expect_inputs("layer_norm_bwd", inputs, residual_ ? 5 : 4);
  expect_activation("layer_norm_bwd", "input", inputs[0]);
  expect_same("layer_norm_bwd", "dy", inputs[1], inputs[0]);
  expect_same("layer_norm_bwd", "saved", inputs[3], {{rows_of(inputs[0]), 2}, DType::f32});
  if (residual_) expect_same("layer_norm_bwd", "dh", inputs[4], inputs[0]);
  const std::int64_t channels = inputs[0].shape[-1];
  std::vector<TensorType> types{inputs[0], {{channels}}};
  if (bias_) types.push_back({{channels}});
  return types;
}

Cost LayerNormBwd::cost(std::span<const TensorType> inputs,
                        std::span<const TensorType> outputs) const {
  Cost cost = OpBase::cost(inputs, outputs);
  cost.flops = 14.0 * double(inputs[0].elems());
  return cost;
}

}  // namespace lockstep::ops
