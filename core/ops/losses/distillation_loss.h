// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// What a DistillationLoss compares with: the share a of the loss that the teacher has, the
/// temperature T, and whether its likeliest class alone counts.
struct Distilled {
  float alpha = 0.5f;     ///< (0, 1]
  float temperature = 1;  ///< above 0; 1 where `hard`
  bool hard = false;
  bool operator==(const Distilled&) const = default;
};

/// Adds to the loss of the labels, which is weighted by 1 - a where it is made, what a student's
/// logits x differ from a teacher's t:
///   loss = base + w a T^2 sum_n KL(q_n || p_n),  q = softmax(t / T), p = softmax(x / T)
///   dlogits = w a T (p - q)
/// (Hinton et al. 2015, section 2; T^2 keeps the size of the gradients), or, where the teacher is
/// `hard`, with its likeliest class k (the first of equal ones):
///   loss = base + w a sum_n -log softmax(x)[n, k],  dlogits = w a (softmax(x) - onehot(k))
/// (Touvron et al. 2021, "Training data-efficient image transformers", equation 3), with the sample
/// weight w, one over the samples of the global batch.
/// Inputs: logits x, teacher t: [N, K] f32, sample_weight: [1] f32, base: [1] f32, a loss of this
///   micro-batch of the same logits.
/// Outputs: loss: [1] f32, accumulated over micro-batches, rows summed in a fixed order; dlogits:
///   [N, K] f32, absent without gradient, may overwrite logits.
class DistillationLoss final : public OpBase<OpKind::distillation_loss> {
 public:
  DistillationLoss(const Distilled& distilled, bool with_gradient)
      : distilled_(distilled), with_gradient_(with_gradient) {}
  const Distilled& distilled() const { return distilled_; }
  bool with_gradient() const { return with_gradient_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;
  int in_place_input(int output) const override { return output == 1 ? 0 : -1; }
  bool accumulates(int output) const override { return output == 0; }
  bool is_loss() const override { return true; }

 private:
  Distilled distilled_;
  bool with_gradient_;
};

}  // namespace lockstep::ops
