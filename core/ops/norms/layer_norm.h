// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// Layer normalisation over the last extent (Ba et al. 2016, section 3.1), optionally of a residual
/// sum:
///   h = x + r (with residual) or x
///   y = gamma * (h - mean) * rstd + beta,  rstd = 1 / sqrt(var + eps), var biased, per row
/// Inputs: x: [N, ..., C] f32 or bf16, gamma: [C] f32, beta: [C] f32 (absent without bias), r: as x
///   (only with residual).
/// Outputs: y as x; saved: [rows, 2] f32 (mean, rstd); h as x (only with residual; may overwrite
/// x).
class LayerNorm final : public OpBase<OpKind::layer_norm> {
 public:
  LayerNorm(float eps, bool bias, bool residual) : eps_(eps), bias_(bias), residual_(residual) {}
  float eps() const { return eps_; }
  bool bias() const { return bias_; }
  bool residual() const { return residual_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;
  int in_place_input(int output) const override { return output == 2 ? 0 : -1; }

 private:
  float eps_;
  bool bias_, residual_;
};

/// With xhat = (h - mean) * rstd, g = gamma * dy and means over a row:
///   dh = rstd * (g - mean(g) - xhat * mean(g * xhat)) + dh_in (where it is given)
///   dgamma = sum over rows of dy * xhat, dbeta = sum over rows of dy, in a fixed order.
/// Inputs: h, dy: [N, ..., C] f32 or bf16, gamma: [C] f32, saved: [rows, 2] f32, dh_in as h (only
///   with residual: what reached the sum directly).
/// Outputs: dh as h (may overwrite dy); accumulated: dgamma: [C], dbeta: [C] (absent without bias).
class LayerNormBwd final : public OpBase<OpKind::layer_norm_bwd> {
 public:
  LayerNormBwd(bool bias, bool residual) : bias_(bias), residual_(residual) {}
  bool bias() const { return bias_; }
  bool residual() const { return residual_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
  int in_place_input(int output) const override { return output == 0 ? 1 : -1; }
  bool accumulates(int output) const override { return output >= 1; }

 private:
  bool bias_, residual_;
};

}  // namespace lockstep::ops
