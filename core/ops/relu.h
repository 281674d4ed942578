// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// y = max(x, 0); NaN stays NaN. Shapes: any, f32 or bf16. y may overwrite x.
class Relu final : public OpBase<OpKind::relu> {
 public:
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;
  int in_place_input(int) const override { return 0; }
};

/// dx = y > 0 ? dy : 0, from the output y, so that x need not be kept. dx may overwrite dy.
/// Inputs: dy, y, any equal shapes, f32 or bf16.
class ReluBwd final : public OpBase<OpKind::relu_bwd> {
 public:
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  int in_place_input(int) const override { return 0; }
};

}  // namespace lockstep::ops
