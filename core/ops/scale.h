// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// y = factor * x. Its gradient is the same operator on dy. Shapes: any, f32 or bf16. y may
/// overwrite x.
class Scale final : public OpBase<OpKind::scale> {
 public:
  explicit Scale(float factor) : factor_(factor) {}
  float factor() const { return factor_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;
  int in_place_input(int) const override { return 0; }

 private:
  float factor_;
};

}  // namespace lockstep::ops
