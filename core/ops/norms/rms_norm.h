// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// Root-mean-square normalisation over the last extent (Zhang and Sennrich 2019, equation 4),
/// optionally of a residual sum:
///   h = x + r (with residual) or x
///   y = gamma * h * rstd,  rstd = 1 / sqrt(mean(h^2) + eps), per row
/// Inputs: x: [N, ..., C] f32 or bf16, gamma: [C] f32, r: as x (only with residual).
/// Outputs: y as x; saved: [rows] f32 (rstd); h as x (only with residual; may overwrite x).
class RmsNorm final : public OpBase<OpKind::rms_norm> {
 public:
  RmsNorm(float eps, bool residual) : eps_(eps), residual_(residual) {}
  float eps() const { return eps_; }
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
  bool residual_;
};

/// With xhat = h * rstd, g = gamma * dy and the mean over a row:
///   dh = rstd * (g - xhat * mean(g * xhat)) + dh_in (where it is given)
///   dgamma = sum over rows of dy * xhat, in a fixed order.
/// Inputs: h, dy: [N, ..., C] f32 or bf16, gamma: [C] f32, saved: [rows] f32, dh_in as h (only with
///   residual: what reached the sum directly).
/// Outputs: dh as h (may overwrite dy); accumulated: dgamma: [C].
class RmsNormBwd final : public OpBase<OpKind::rms_norm_bwd> {
 public:
  explicit RmsNormBwd(bool residual) : residual_(residual) {}
  bool residual() const { return residual_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
  int in_place_input(int output) const override { return output == 0 ? 1 : -1; }
  bool accumulates(int output) const override { return output == 1; }

 private:
  bool residual_;
};

}  // namespace lockstep::ops
