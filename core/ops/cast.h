// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// y = x in another element type, rounded to nearest even. Its gradient is the cast back.
/// Shapes: any; f32 -> bf16 or bf16 -> f32.
class Cast final : public OpBase<OpKind::cast> {
 public:
  explicit Cast(DType output) : output_(output) {}
  DType output() const { return output_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;

 private:
  DType output_;
};

}  // namespace lockstep::ops
