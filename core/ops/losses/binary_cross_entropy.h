// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// Sigmoid, binary cross-entropy of each label and its gradient in one pass over the logits
/// (PyTorch's BCEWithLogitsLoss):
///   loss = (w / L) sum_{n, l} ( max(x, 0) - x t + log(1 + exp(-|x|)) ),  x = logits[n, l]
///   correct = (w / L) #{(n, l) : (x > 0) = (t > 1/2)}, the share of labels that are right at
///     probability 1/2
///   dlogits = (w / L) (sigmoid(x) - t)
/// with the sample weight w, one over the samples of the global batch. Finite logits of any size
/// neither overflow nor lose the loss of a label that is almost certain.
/// Inputs: logits: [N, L] f32, t: [N, L] f32 in [0, 1], sample_weight: [1] f32.
/// Outputs: loss, correct: [1] f32 each, accumulated over micro-batches, elements summed in a fixed
///   order; dlogits: [N, L] f32, absent without gradient, may overwrite logits.
class BinaryCrossEntropy final : public OpBase<OpKind::binary_cross_entropy> {
 public:
  explicit BinaryCrossEntropy(bool with_gradient) : with_gradient_(with_gradient) {}
  bool with_gradient() const { return with_gradient_; }

  std::string attributes() const override { return with_gradient_ ? "with_gradient" : ""; }
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;
  int in_place_input(int output) const override { return output == 2 ? 0 : -1; }
  bool accumulates(int output) const override { return output < 2; }
  bool is_loss() const override { return true; }

 private:
  bool with_gradient_;
};

}  // namespace lockstep::ops
