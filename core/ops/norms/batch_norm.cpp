// SPDX-License-Identifier: Apache-2.0
#include "core/ops/norms/batch_norm.h"

#include <algorithm>

#include "core/graph/gradient_builder.h"
#include "core/ops/all_gather.h"

namespace lockstep::ops {
namespace {

void expect_features(std::string_view op, const TensorType& x) {
  LOCKSTEP_CHECK(
      is_float(x.dtype) && (x.shape.rank() == 2 || x.shape.rank() == 4) && x.shape[-1] >= 1,
      ShapeError,
      "{}: input must be f32 or bf16 [N, C] or [N, H, W, C] with C >= 1, got {}",
      op,
      x.to_string());
}

void expect_channels(std::string_view op,
                     std::span<const TensorType> vectors,
                     std::int64_t channels) {
  for (const TensorType& t : vectors) expect_same(op, "a per-channel input", t, {{channels}});
}

std::string fused(bool relu, bool residual, float limit) {
  return fmt::format("{}{}{}",
                     residual ? " residual" : "",
                     relu ? " relu" : "",
                     limit == kNoLimit ? std::string() : fmt::format(" limit={}", limit));
}

}  // namespace

std::int64_t batch_norm_groups(std::int64_t n, std::int64_t group_size) {
  return group_size == 0 ? 1 : std::max<std::int64_t>(1, (n + group_size - 1) / group_size);
}

std::string BatchNormMoments::attributes() const { return fmt::format("group={}", group_size_); }

std::vector<TensorType> BatchNormMoments::infer(std::span<const TensorType> inputs) const {
  expect_inputs("batch_norm", inputs, 1);
  expect_features("batch_norm", inputs[0]);
  const Shape& x = inputs[0].shape;
  return {{{batch_norm_groups(x[0], group_size_), 1, 3, x[-1]}, DType::f32}};
}

std::string BatchNormNormalize::attributes() const {
  return fmt::format("group={} eps={}{}", group_size_, eps_, fused(relu_, residual_, limit_));
}

std::vector<TensorType> BatchNormNormalize::infer(std::span<const TensorType> inputs) const {
  expect_inputs("batch_norm", inputs, residual_ ? 8 : 7);
  LOCKSTEP_ASSERT(relu_ || !residual_);
  LOCKSTEP_ASSERT(limit_ == kNoLimit || saves_affine());
  expect_features("batch_norm", inputs[0]);
  const Shape& x = inputs[0].shape;
  const std::int64_t channels = x[-1];
  expect_channels("batch_norm", inputs.subspan(1, 2), channels);
  expect_channels("batch_norm", inputs.subspan(4, 2), channels);
  expect_tensor("batch_norm", "moments", inputs[3], 4);
  const std::int64_t groups = batch_norm_groups(x[0], group_size_);
  LOCKSTEP_CHECK(inputs[3].shape[0] == groups && inputs[3].shape[3] == channels,
                 ShapeError,
                 "batch_norm: moments {} do not belong to {} groups of input {}",
                 inputs[3].to_string(),
                 groups,
                 inputs[0].to_string());
  if (residual_) expect_same("batch_norm", "residual", inputs[7], inputs[0]);
  return {
      inputs[0], {{groups, saves_affine() ? 4 : 2, channels}}, {{channels}}, {{channels}}, {{1}}};
}

std::vector<ValueId> BatchNormNormalize::gradient(GradientBuilder& builder,
                                                  const Node& node,
                                                  std::span<const ValueId> output_grads) const {
  ValueId dy = output_grads[0];
  const ValueId x = node.inputs[0], gamma = node.inputs[1], moments = node.inputs[3];
  const ValueId y = node.outputs[0], saved = node.outputs[1];
  std::vector<ValueId> sums, grads(node.inputs.size(), kNoValue);
  if (residual_) {
    sums = builder.emit(
        node, std::make_shared<BatchNormResidualBwdSums>(group_size_), {x, dy, saved, y});
    grads[7] = dy = sums[3];
  } else {
    sums = builder.emit(node,
                        std::make_shared<BatchNormBwdSums>(group_size_, saves_affine(), limit_),
                        {x, dy, saved});
  }
  grads[1] = sums[1];
  grads[2] = sums[2];
  if (!builder.needs_grad(x)) return grads;
  ValueId all_sums = sums[0];
  if (const std::int64_t parts = builder.type(moments).shape[1]; parts > 1)
    all_sums = builder.emit(node, std::make_shared<AllGather>(parts), {all_sums})[0];
  grads[0] = builder.emit(node,
                          std::make_shared<BatchNormBwdData>(group_size_, saves_affine(), limit_),
                          {x, dy, gamma, saved, moments, all_sums})[0];
  return grads;
}

std::string BatchNormBwdSums::attributes() const {
  return fmt::format("group={}{}", group_size_, fused(relu_, false, limit_));
}

std::vector<TensorType> BatchNormBwdSums::infer(std::span<const TensorType> inputs) const {
  expect_inputs("batch_norm_bwd_sums", inputs, 3);
  expect_same("batch_norm_bwd_sums", "dy", inputs[1], inputs[0]);
  const std::int64_t channels = inputs[0].shape[-1];
  return {{{inputs[2].shape[0], 1, 2, channels}}, {{channels}}, {{channels}}};
}

std::string BatchNormResidualBwdSums::attributes() const {
  return fmt::format("group={}{}", group_size_, two_uses_ ? " two_uses" : "");
}

std::vector<TensorType> BatchNormResidualBwdSums::infer(std::span<const TensorType> inputs) const {
  expect_inputs("batch_norm_residual_bwd_sums", inputs, two_uses_ ? 5 : 4);
  expect_same("batch_norm_residual_bwd_sums", "dy", inputs[1], inputs[0]);
  expect_same("batch_norm_residual_bwd_sums", "y", inputs[3], inputs[0]);
  if (two_uses_) expect_same("batch_norm_residual_bwd_sums", "the second dy", inputs[4], inputs[0]);
  const std::int64_t channels = inputs[0].shape[-1];
  return {{{inputs[2].shape[0], 1, 2, channels}}, {{channels}}, {{channels}}, inputs[0]};
}

std::string BatchNormBwdData::attributes() const {
  return fmt::format("group={}{}", group_size_, fused(relu_, false, limit_));
}

std::vector<TensorType> BatchNormBwdData::infer(std::span<const TensorType> inputs) const {
  expect_inputs("batch_norm_bwd_data", inputs, 6);
  expect_same("batch_norm_bwd_data", "dy", inputs[1], inputs[0]);
  return {inputs[0]};
}

std::string BatchNormInference::attributes() const {
  return fmt::format("eps={}{}", eps_, fused(relu_, residual_, limit_));
}

std::vector<TensorType> BatchNormInference::infer(std::span<const TensorType> inputs) const {
  expect_inputs("batch_norm", inputs, residual_ ? 6 : 5);
  LOCKSTEP_ASSERT(limit_ == kNoLimit || (relu_ && !residual_));
  expect_features("batch_norm", inputs[0]);
  expect_channels("batch_norm", inputs.subspan(1, 4), inputs[0].shape[-1]);
  if (residual_) expect_same("batch_norm", "residual", inputs[5], inputs[0]);
  return {inputs[0]};
}

}  // namespace lockstep::ops
