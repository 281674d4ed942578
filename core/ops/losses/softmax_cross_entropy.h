// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

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
/// Soft labels are two classes a row, a and b, with weights u and v, which may be of one class:
///   loss = w * sum_n ( u CE(n, a) + v CE(n, b) )
/// CE being what a row with that label alone adds; a row is correct where the argmax is the class
/// of the larger weight, a if they are equal (mixup: Zhang et al. 2018, section 2; CutMix: Yun et
/// al. 2019, equation 1).
/// With `class_weights` c every label's part is multiplied by the weight of its class: u by c[a], v
/// by c[b], and of a label t alone the row by c[t], smoothing included. The mean stays one over the
/// rows, whatever they weigh.
/// Rows of logits may be longer than `classes`, with anything after the classes: it is not read,
/// and its gradient is zero; see core/plan/pad_logits.h.
/// Inputs: logits: [N, K] or [N, T, K] f32 or bf16, labels: [N] or [N, T] i32 in [0, K) or
///   ignore_index, or [N, 2, 2] f32: (a, u), (b, v), which needs logits [N, K] and no ignore_index
///   (checked where data is read), sample_weight: [1] f32. Arithmetic is fp32.
/// Outputs: loss, correct and, with an ignore_index, counted: [1] f32 each, accumulated over
///   micro-batches, rows summed in a fixed order; dlogits: as logits, absent without gradient, may
///   overwrite logits.
class SoftmaxCrossEntropy final : public OpBase<OpKind::softmax_cross_entropy> {
 public:
  SoftmaxCrossEntropy(float label_smoothing,
                      bool with_gradient,
                      std::optional<std::int32_t> ignore_index = {},
                      std::int64_t classes = 0,
                      std::vector<float> class_weights = {})
      : label_smoothing_(label_smoothing),
        with_gradient_(with_gradient),
        ignore_index_(ignore_index),
        classes_(classes),
        class_weights_(std::move(class_weights)) {}
  float label_smoothing() const { return label_smoothing_; }
  bool with_gradient() const { return with_gradient_; }
  std::optional<std::int32_t> ignore_index() const { return ignore_index_; }
  /// [K], or empty: all are 1.
  const std::vector<float>& class_weights() const { return class_weights_; }
  /// Whether labels of this type are soft.
  static bool is_soft(const TensorType& labels) { return labels.dtype == DType::f32; }
  /// Rows of logits of this type.
  static std::int64_t rows(const TensorType& logits) {
    return Shape(logits.shape.dims().first(std::size_t(logits.shape.rank() - 1))).elems();
  }
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
  std::vector<float> class_weights_;
};

}  // namespace lockstep::ops
