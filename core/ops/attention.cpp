// SPDX-License-Identifier: Apache-2.0
#include "core/ops/attention.h"

#include <algorithm>

#include "core/graph/gradient_builder.h"

namespace lockstep::ops {
namespace {

std::string describe(const AttentionAttrs& a) {
  return fmt::format("heads={}{}{}{}",
                     a.heads,
                     a.group() > 1 ? fmt::format(":{}", a.kv_heads) : "",
                     a.causal ? " causal" : "",
                     a.dropout > 0.0f ? fmt::format(" dropout={}", a.dropout) : "");
}

/// `products` multiply-adds of D values for every pair of positions that is looked at.
Cost pair_cost(Cost cost, const AttentionAttrs& attrs, const TensorType& qkv, double products) {
  const double n = double(qkv.shape[0]), t = double(qkv.shape[1]);
  const double width = double(attrs.heads) * double(attrs.depth_of(qkv));
  const double pairs = attrs.causal ? t * (t + 1) / 2 : t * t;
  cost.flops = 2 * products * n * pairs * width;
  return cost;
}

}  // namespace

std::string Attention::attributes() const { return describe(attrs_); }

std::vector<TensorType> Attention::infer(std::span<const TensorType> inputs) const {
  expect_inputs("attention", inputs, 1);
  expect_activation("attention", "qkv", inputs[0], 3);
  const Shape& qkv = inputs[0].shape;
  LOCKSTEP_CHECK(
      attrs_.heads >= 1 && attrs_.kv_heads >= 0 && attrs_.heads % attrs_.key_heads() == 0,
      ShapeError,
      "attention: heads must be a multiple of the heads of keys and values, got {} and "
      "{}",
      attrs_.heads,
      attrs_.kv_heads);
  const std::int64_t all_heads = attrs_.heads + 2 * std::int64_t(attrs_.key_heads());
  LOCKSTEP_CHECK(qkv[2] >= 1 && qkv[2] % all_heads == 0,
                 ShapeError,
                 "attention: qkv must be [N, T, C] with C a multiple of the {} heads of queries, "
                 "keys and values, got {}",
                 all_heads,
                 inputs[0].to_string());
  LOCKSTEP_CHECK(attrs_.dropout >= 0.0f && attrs_.dropout < 1.0f,
                 ShapeError,
                 "attention: dropout must be in [0, 1), got {}",
                 attrs_.dropout);
  LOCKSTEP_CHECK(attrs_.dropout == 0.0f || qkv[1] <= (std::int64_t{1} << 34) / attrs_.heads /
                                                         std::max<std::int64_t>(1, qkv[1]),
                 ShapeError,
                 "attention: dropout of more than 2^34 weights a sample, in {} heads of {}",
                 attrs_.heads,
                 inputs[0].to_string());
  return {{{qkv[0], qkv[1], attrs_.heads * attrs_.depth_of(inputs[0])}, inputs[0].dtype},
          {{qkv[0], attrs_.heads, qkv[1]}, DType::f32}};
}

Cost Attention::cost(std::span<const TensorType> inputs,
                     std::span<const TensorType> outputs) const {
  return pair_cost(OpBase::cost(inputs, outputs), attrs_, inputs[0], 2);
}

std::vector<ValueId> Attention::gradient(GradientBuilder& builder,
                                         const Node& node,
                                         std::span<const ValueId> output_grads) const {
  if (!builder.needs_grad(node.inputs[0])) return {kNoValue};
  return builder.emit(node,
                      std::make_shared<AttentionBwd>(attrs_),
                      {node.inputs[0], node.outputs[0], output_grads[0], node.outputs[1]});
}

std::string AttentionBwd::attributes() const { return describe(attrs_); }

std::vector<TensorType> AttentionBwd::infer(std::span<const TensorType> inputs) const {
  expect_inputs("attention_bwd", inputs, 4);
  expect_activation("attention_bwd", "qkv", inputs[0], 3);
  expect_same("attention_bwd", "dy", inputs[2], inputs[1]);
  return {inputs[0]};
}

Cost AttentionBwd::cost(std::span<const TensorType> inputs,
                        std::span<const TensorType> outputs) const {
  return pair_cost(OpBase::cost(inputs, outputs), attrs_, inputs[0], 5);
}

}  // namespace lockstep::ops
