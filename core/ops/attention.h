// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

struct AttentionAttrs {
  int heads = 1;
  int kv_heads = 0;      ///< of keys and values, divides heads; 0: as many as heads
  bool causal = true;    ///< position t sees positions 0 to t
  float dropout = 0.0f;  ///< of the attention weights

  int key_heads() const { return kv_heads == 0 ? heads : kv_heads; }
  /// Query heads that share a head of keys and values.
  int group() const { return heads / key_heads(); }
  /// Columns of a head of `qkv`.
  std::int64_t depth_of(const TensorType& qkv) const {
    return qkv.shape[2] / (heads + 2 * std::int64_t(key_heads()));
  }
};

/// Multi-head scaled dot-product attention (Vaswani et al. 2017, section 3.2) over packed
/// projections. With kv_heads below heads, groups of heads / kv_heads neighbouring heads share keys
/// and values (grouped-query attention, Ainslie et al. 2023). qkv has E = heads + 2 kv_heads heads
/// of D columns; of head h, q is that of number h, k of number heads + h / group, v of number heads
/// + kv_heads + h / group:
///   s[i, j] = q_i . k_j / sqrt(D)   (j <= i where causal),   p[i, :] = softmax(s[i, :])
///   y_i = sum_j drop(p[i, j]) v_j
///   lse[n, h, i] = log sum_j exp(s[i, j])
/// The scores are never held whole: a kernel works on blocks of them and needs workspace for one
/// sample's head at most (online softmax: Dao et al. 2022, algorithm 1; backward recomputes them
/// from lse).
/// Dropout keeps weight (h, i, j) of sample n as ops::Dropout keeps element (h T + i) T + j of a
/// sample [heads, T, T] (2^34 weights at most), with this node's path as key, and scales by 1 / (1
/// - rate). Shapes: qkv: [N, T, E D] f32 or bf16 -> y: [N, T, heads D] as qkv, lse: [N, heads, T]
/// f32.
class Attention final : public OpBase<OpKind::attention> {
 public:
  explicit Attention(const AttentionAttrs& attrs) : attrs_(attrs) {}
  const AttentionAttrs& attrs() const { return attrs_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;

 private:
  AttentionAttrs attrs_;
};

/// Gradient of attention, the weights p recomputed from lse:
///   dv_j = sum_i drop(p[i, j]) dy_i,   dp[i, j] = drop(dy_i . v_j),
///   ds[i, j] = p[i, j] (dp[i, j] - dy_i . y_i),
///   dq_i = sum_j ds[i, j] k_j / sqrt(D),   dk_j = sum_i ds[i, j] q_i / sqrt(D)
/// where dk and dv are sums over the heads of a group, in order.
/// Inputs: qkv: [N, T, E D], y: [N, T, heads D], dy as y, lse: [N, heads, T] f32.
/// Output: dqkv as qkv.
class AttentionBwd final : public OpBase<OpKind::attention_bwd> {
 public:
  explicit AttentionBwd(const AttentionAttrs& attrs) : attrs_(attrs) {}
  const AttentionAttrs& attrs() const { return attrs_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;

 private:
  AttentionAttrs attrs_;
};

}  // namespace lockstep::ops
