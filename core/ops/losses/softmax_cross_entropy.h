// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// Softmax, cross-entropy and its gradient in one pass over the logits:
///   loss = w * sum_n ( -(1 - s) log p[n, t_n] - (s / K) sum_k log p[n, k] ),  p = softmax(logits)
///   correct = w * #{n : argmax_k logits[n, k] = t_n}  (the first of equal logits)
///   dlogits = w * (p - (1 - s) onehot(t) - s / K)
/// with label smoothing s (Szegedy et al. 2016, section 7) and w = sample_weight / T, where
/// sample_weight is one over the samples of the global batch and T the rows (tokens) of a sample.
/// Rows whose label is `ignore_index` count in nothing and have a zero gradient; then
///   counted = w * #{rows that count}
/// is what the sums are to be divided by to be means over the rows that count.
/// Rows of logits may be longer than `classes`, with anything after the classes: it is not read,
/// and its gradient is zero; see core/plan/pad_logits.h.
/// Inputs: logits: [N, K] or [N, T, K] f32 or bf16, labels: [N] or [N, T] i32 in [0, K) or
///   ignore_index (checked where data is read), sample_weight: [1] f32. Arithmetic is fp32.
/// Outputs: loss, correct and, with an ignore_index, counted: [1] f32 each, accumulated over
///   micro-batches, rows summed in a fixed order; dlogits: as logits, absent without gradient, may
///   overwrite logits.
class SoftmaxCrossEntropy final : public OpBase<OpKind::softmax_cross_entropy> {
 public:
  SoftmaxCrossEntropy(float label_smoothing,
                      bool with_gradient,
                      std::optional<std::int32_t> ignore_index = {},
                      std::int64_t classes = 0)
      : label_smoothing_(label_smoothing),
        with_gradient_(with_gradient),
        ignore_index_(ignore_index),
        classes_(classes) {}
  float label_smoothing() const { return label_smoothing_; }
  bool with_gradient() const { return with_gradient_; }
  std::optional<std::int32_t> ignore_index() const { return ignore_index_; }
  /// K, given the type of the logits.
  std::int64_t classes(const TensorType& logits) const {
    return classes_ > 0 ? classes_ : logits.shape[-1];
  }
  /// Number of the output dlogits.
  int gradient_output() const { return ignore_index_ ? 3 : 2; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;
  int in_place_input(int output) const override { return output == gradient_output() ? 0 : -1; }
  bool accumulates(int output) const override { return output < gradient_output(); }
  bool is_loss() const override { return true; }

 private:
  float label_smoothing_;
  bool with_gradient_;
  std::optional<std::int32_t> ignore_index_;
  std::int64_t classes_;  ///< 0: as long as the rows
};

}  // namespace lockstep::ops
