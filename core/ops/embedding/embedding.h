// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// Token embedding, with learned positions where `positions` is set:
///   y[n, t, :] = W[x[n, t], :] + P[t, :]
/// Shapes: x: [N, T] i32 in [0, V) (checked where data is read), W: [V, C] f32, P: [L, C] f32 with
///   L >= T (absent without positions) -> y: [N, T, C], f32 or bf16 as `output` says.
class Embedding final : public OpBase<OpKind::embedding> {
 public:
  explicit Embedding(bool positions, DType output = DType::f32)
      : positions_(positions), output_(output) {}
  bool positions() const { return positions_; }
  DType output() const { return output_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;

 private:
  bool positions_;
  DType output_;
};

/// dW[v, :] = sum of dy[n, t, :] over (n, t) with x[n, t] = v, in the order of n, then t; zero for
/// tokens that do not occur. Shapes: x: [N, T] i32, dy: [N, T, C] f32 or bf16 -> dW: [V, C] f32.
class EmbeddingBwdTokens final : public OpBase<OpKind::embedding_bwd_tokens> {
 public:
  explicit EmbeddingBwdTokens(std::int64_t vocabulary) : vocabulary_(vocabulary) {}
  std::int64_t vocabulary() const { return vocabulary_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  bool accumulates(int) const override { return true; }

 private:
  std::int64_t vocabulary_;
};

/// dP[t, :] = sum_n dy[n, t, :] in the order of n; zero for t >= T.
/// Shapes: dy: [N, T, C] f32 or bf16 -> dP: [L, C] f32.
class EmbeddingBwdPositions final : public OpBase<OpKind::embedding_bwd_positions> {
 public:
  explicit EmbeddingBwdPositions(std::int64_t positions) : positions_(positions) {}
  std::int64_t positions() const { return positions_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  bool accumulates(int) const override { return true; }

 private:
  std::int64_t positions_;
};

}  // namespace lockstep::ops
