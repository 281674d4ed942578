// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// What a vision transformer's encoder begins with: a learned token before those of the image's
/// patches, and learned positions (Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", eq.
/// 1):
///   y[n, 0, :] = c[0, :] + P[0, :]
///   y[n, 1 + t, :] = x[n, t, :] + P[1 + t, :]
/// Shapes: x: [N, T, C], or [N, H, W, C] with T = H W, f32 or bf16; c: [1, C] f32; P: [1 + T, C]
/// f32
///   -> y: [N, 1 + T, C] as x is stored.
class ClassToken final : public OpBase<OpKind::class_token> {
 public:
  std::string attributes() const override { return {}; }
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;
};

}  // namespace lockstep::ops
