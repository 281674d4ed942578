// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// The gate of a SwiGLU layer (Shazeer 2020, equation 5, without its GEMMs):
///   y = silu(gate) * up,  silu(g) = g / (1 + exp(-g))
/// Inputs: gate, up, of any equal shape, f32 or bf16. y may overwrite gate.
class Swiglu final : public OpBase<OpKind::swiglu> {
 public:
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;
  int in_place_input(int) const override { return 0; }
};

/// With s = 1 / (1 + exp(-gate)):
///   dgate = dy * up * s * (1 + gate * (1 - s)),   dup = dy * gate * s
/// Inputs: dy, gate, up, equal types. Outputs: dgate (may overwrite gate), dup (may overwrite up).
class SwigluBwd final : public OpBase<OpKind::swiglu_bwd> {
 public:
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
  int in_place_input(int output) const override { return output + 1; }
};

}  // namespace lockstep::ops
