// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// loss = (w / D) sum_{n, d} (x[n, d] - t[n, d])^2 and its gradient dx = (2 w / D) (x - t), with
/// the sample weight w, one over the samples of the global batch.
/// Inputs: x: [N, D] f32, t: [N, D] f32, sample_weight: [1] f32.
/// Outputs: loss: [1] f32, accumulated over micro-batches, samples summed in order; dx: [N, D] f32,
///   absent without gradient, may overwrite x.
class MeanSquaredError final : public OpBase<OpKind::mean_squared_error> {
 public:
  explicit MeanSquaredError(bool with_gradient) : with_gradient_(with_gradient) {}
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

}  // namespace lockstep::ops
