// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// y = a + b, elementwise, equal shapes, f32 or bf16. y may overwrite a.
class Add final : public OpBase<OpKind::add> {
 public:
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;
  int in_place_input(int) const override { return 0; }
  bool accumulates(int) const override { return true; }
};

}  // namespace lockstep::ops
