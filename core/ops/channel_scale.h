// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// A learned factor for each channel (LayerScale: Touvron et al. 2021, "Going deeper with image
/// transformers", section 3):
///   y[..., c] = gamma[c] x[..., c]
/// Shapes: x: [N, ..., C] f32 or bf16, gamma: [C] f32 -> y as x.
class ChannelScale final : public OpBase<OpKind::channel_scale> {
 public:
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;
};

/// dx[..., c] = gamma[c] dy[..., c], dgamma[c] = sum over the others of dy x, in a fixed order. dx
/// may overwrite dy.
/// Inputs: dy, x: [N, ..., C] f32 or bf16, gamma: [C] f32. Outputs: dx as dy; accumulated: dgamma:
///   [C].
class ChannelScaleBwd final : public OpBase<OpKind::channel_scale_bwd> {
 public:
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
  int in_place_input(int output) const override { return output == 0 ? 0 : -1; }
  bool accumulates(int output) const override { return output == 1; }
};

}  // namespace lockstep::ops
