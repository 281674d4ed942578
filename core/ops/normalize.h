// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// Per-channel affine map of the input samples, usually the first operator: bytes become floats.
///   y[..., c] = x[..., c] * scale[c] + shift[c]
/// Shapes: x: [N, ..., C] u8 or f32 -> y: the same, f32 or bf16 as `output` says. `scale` and
/// `shift` have C entries, or one for all channels. No gradient: nothing trained lies before it.
class Normalize final : public OpBase<OpKind::normalize> {
 public:
  Normalize(std::vector<float> scale, std::vector<float> shift, DType output = DType::f32)
      : scale_(std::move(scale)), shift_(std::move(shift)), output_(output) {}

  const std::vector<float>& scale() const { return scale_; }
  const std::vector<float>& shift() const { return shift_; }
  DType output() const { return output_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;

 private:
  std::vector<float> scale_;
  std::vector<float> shift_;
  DType output_;
};

}  // namespace lockstep::ops
