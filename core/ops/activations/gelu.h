// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"
#include "lockstep/gelu_kind.h"

namespace lockstep::ops {

/// Gaussian error linear unit (Hendrycks and Gimpel 2016, section 2):
///   erf:  y = x / 2 * (1 + erf(x / sqrt(2)))
///   tanh: y = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
/// Shapes: any, f32 or bf16. y may overwrite x where nothing else reads it.
class Gelu final : public OpBase<OpKind::gelu> {
 public:
  explicit Gelu(GeluKind gelu) : gelu_(gelu) {}
  GeluKind gelu() const { return gelu_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;
  int in_place_input(int) const override { return 0; }

 private:
  GeluKind gelu_;
};

/// dx = dy * gelu'(x). Inputs: dy, x, equal types. dx may overwrite dy.
class GeluBwd final : public OpBase<OpKind::gelu_bwd> {
 public:
  explicit GeluBwd(GeluKind gelu) : gelu_(gelu) {}
  GeluKind gelu() const { return gelu_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
  int in_place_input(int) const override { return 0; }

 private:
  GeluKind gelu_;
};

}  // namespace lockstep::ops
