// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// Softmax, cross-entropy and its gradient in one pass over the logits:
///   loss = w * sum_n ( -(1 - s) log p[n, t_n] - (s / K) sum_k log p[n, k] ),  p = softmax(logits)
///   correct = w * #{n : argmax_k logits[n, k] = t_n}  (the first of equal logits)
///   dlogits = w * (p - (1 - s) onehot(t) - s / K)
/// with label smoothing s (Szegedy et al. 2016, section 7) and sample weight w, one over the
/// samples of the global batch.
/// Inputs: logits: [N, K] f32, labels: [N] i32 in [0, K) (checked where data is read),
///   sample_weight: [1] f32.
/// Outputs: loss: [1] f32 and correct: [1] f32, accumulated over micro-batches, samples summed in
///   a fixed order; dlogits: [N, K] f32, absent without gradient, may overwrite logits.
class SoftmaxCrossEntropy final : public OpBase<OpKind::softmax_cross_entropy> {
 public:
  SoftmaxCrossEntropy(float label_smoothing, bool with_gradient)
      : label_smoothing_(label_smoothing), with_gradient_(with_gradient) {}
  float label_smoothing() const { return label_smoothing_; }
  bool with_gradient() const { return with_gradient_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;
  int in_place_input(int output) const override { return output == 2 ? 0 : -1; }
  bool accumulates(int output) const override { return output < 2; }
  bool is_loss() const override { return true; }

 private:
  float label_smoothing_;
  bool with_gradient_;
};

}  // namespace lockstep::ops
