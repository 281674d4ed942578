// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// What the losses of a regression have in common: a mean over the elements of a sample,
///   loss = (w / D) sum_{n, d} l(x[n, d] - t[n, d]),  dx = (w / D) l'(x - t),
/// with the sample weight w, one over the samples of the global batch.
/// Inputs: x: [N, D] f32, t: [N, D] f32, sample_weight: [1] f32.
/// Outputs: loss: [1] f32, accumulated over micro-batches, samples summed in order; dx: [N, D] f32,
///   absent without gradient, may overwrite x.
template <OpKind K>
class RegressionLoss : public OpBase<K> {
 public:
  explicit RegressionLoss(bool with_gradient) : with_gradient_(with_gradient) {}
  bool with_gradient() const { return with_gradient_; }

  std::string attributes() const override { return with_gradient_ ? "with_gradient" : ""; }
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;
  int in_place_input(int output) const override { return output == 1 ? 0 : -1; }
  bool accumulates(int output) const override { return output == 0; }
  bool is_loss() const override { return true; }

 private:
  bool with_gradient_;
};

/// l(d) = d^2 (PyTorch's MSELoss).
class MeanSquaredError final : public RegressionLoss<OpKind::mean_squared_error> {
 public:
  using RegressionLoss::RegressionLoss;
};

/// l(d) = |d|, l'(0) = 0 (PyTorch's L1Loss): the mean absolute error.
class L1Loss final : public RegressionLoss<OpKind::l1_loss> {
 public:
  using RegressionLoss::RegressionLoss;
};

/// l(d) = d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2) (PyTorch's HuberLoss; Huber
/// 1964). delta is finite and above 0.
class HuberLoss final : public RegressionLoss<OpKind::huber_loss> {
 public:
  HuberLoss(float delta, bool with_gradient) : RegressionLoss(with_gradient), delta_(delta) {}
  float delta() const { return delta_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;

 private:
  float delta_;
};

}  // namespace lockstep::ops
