// SPDX-License-Identifier: Apache-2.0
#include "core/ops/norms/rms_norm.h"

#include "core/graph/gradient_builder.h"

namespace lockstep::ops {
namespace {

TensorType saved_of(const TensorType& x) { return {{x.elems() / x.shape[-1]}, DType::f32}; }

}  // namespace

std::string RmsNorm::attributes() const {
  return fmt::format("eps={}{}", eps_, residual_ ? " residual" : "");
}

std::vector<TensorType> RmsNorm::infer(std::span<const TensorType> inputs) const {
  expect_inputs("rms_norm", inputs, 2 + std::size_t(residual_));
  const TensorType& x = inputs[0];
  expect_activation("rms_norm", "input", x);
  LOCKSTEP_CHECK(x.shape.rank() >= 2 && x.shape[-1] >= 1,
                 ShapeError,
                 "rms_norm: input must be [N, ..., C] with C >= 1, got {}",
                 x.to_string());
  expect_same("rms_norm", "weight", inputs[1], {{x.shape[-1]}});
  if (residual_) expect_same("rms_norm", "residual", inputs.back(), x);
  std::vector<TensorType> types{x, saved_of(x)};
  if (residual_) types.push_back(x);
  return types;
}

Cost RmsNorm::cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  Cost cost = OpBase::cost(inputs, outputs);
  cost.flops = (residual_ ? 5.0 : 4.0) * double(inputs[0].elems());
  return cost;
}

std::vector<ValueId> RmsNorm::gradient(GradientBuilder& builder,
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
  const auto out =
      builder.emit(node, std::make_shared<RmsNormBwd>(dsum != kNoValue), std::move(inputs));
  grads[0] = out[0];
  grads[1] = out[1];
  if (residual_) grads.back() = out[0];
  return grads;
}

std::string RmsNormBwd::attributes() const { return residual_ ? "residual" : ""; }

std::vector<TensorType> RmsNormBwd::infer(std::span<const TensorType> inputs) const {
  expect_inputs("rms_norm_bwd", inputs, residual_ ? 5 : 4);
  expect_activation("rms_norm_bwd", "input", inputs[0]);
  expect_same("rms_norm_bwd", "dy", inputs[1], inputs[0]);
  expect_same("rms_norm_bwd", "saved", inputs[3], saved_of(inputs[0]));
  if (residual_) expect_same("rms_norm_bwd", "dh", inputs[4], inputs[0]);
  return {inputs[0], {{inputs[0].shape[-1]}}};
}

Cost RmsNormBwd::cost(std::span<const TensorType> inputs,
                      std::span<const TensorType> outputs) const {
  Cost cost = OpBase::cost(inputs, outputs);
  cost.flops = 10.0 * double(inputs[0].elems());
  return cost;
}

}  // namespace lockstep::ops
