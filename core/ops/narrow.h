// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// Some tokens of each sample, as torch.narrow(x, 1, start, length):
///   y[n, t, :] = x[n, start + t, :]
/// Shapes: x: [N, T, C] f32 or bf16, start + length <= T -> y: [N, length, C].
class Narrow final : public OpBase<OpKind::narrow> {
 public:
  Narrow(std::int64_t start, std::int64_t length) : start_(start), length_(length) {}
  std::int64_t start() const { return start_; }
  std::int64_t length() const { return length_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;

 private:
  std::int64_t start_, length_;
};

/// dx[n, start + t, :] = dy[n, t, :], and zero for other tokens.
/// Shapes: dy: [N, length, C] f32 or bf16, start + length <= tokens -> dx: [N, tokens, C].
class NarrowBwd final : public OpBase<OpKind::narrow_bwd> {
 public:
  NarrowBwd(std::int64_t start, std::int64_t tokens) : start_(start), tokens_(tokens) {}
  std::int64_t start() const { return start_; }
  std::int64_t tokens() const { return tokens_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;

 private:
  std::int64_t start_, tokens_;
};

}  // namespace lockstep::ops
