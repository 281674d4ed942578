// SPDX-License-Identifier: Apache-2.0
#include "core/ops/losses/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>

namespace lockstep::ops {

std::string SoftmaxCrossEntropy::attributes() const {
  return fmt::format("label_smoothing={}{}{}{}{}",
                     label_smoothing_,
                     with_gradient_ ? " with_gradient" : "",
                     ignore_index_ ? fmt::format(" ignore_index={}", *ignore_index_) : "",
                     classes_ > 0 ? fmt::format(" classes={}", classes_) : "",
                     class_weights_.empty()
                         ? ""
                         : fmt::format(" class_weights={}", fmt::join(class_weights_, ",")));
}

std::vector<TensorType> SoftmaxCrossEntropy::infer(std::span<const TensorType> inputs) const {
  expect_inputs("softmax_cross_entropy", inputs, 3);
  expect_activation("softmax_cross_entropy", "logits", inputs[0]);
  const int rank = inputs[0].shape.rank();
  LOCKSTEP_CHECK(rank == 2 || rank == 3,
                 ShapeError,
                 "softmax_cross_entropy: logits must be [N, K] or [N, T, K], got {}",
                 inputs[0].to_string());
  if (is_soft(inputs[1])) {
    expect_same(
        "softmax_cross_entropy", "labels", inputs[1], {{inputs[0].shape[0], 2, 2}, DType::f32});
    LOCKSTEP_CHECK(rank == 2 && !ignore_index_,
                   ShapeError,
                   "softmax_cross_entropy: soft labels need logits [N, K] and no ignore_index, got "
                   "{}{}",
                   inputs[0].to_string(),
                   ignore_index_ ? fmt::format(" and ignore_index {}", *ignore_index_) : "");
  } else {
    expect_same("softmax_cross_entropy",
                "labels",
                inputs[1],
                {Shape(inputs[0].shape.dims().first(std::size_t(rank - 1))), DType::i32});
  }
  expect_same("softmax_cross_entropy", "sample_weight", inputs[2], {{1}, DType::f32});
  LOCKSTEP_CHECK(inputs[0].shape[-1] >= 1, ShapeError, "softmax_cross_entropy: no classes");
  LOCKSTEP_CHECK(classes(inputs[0]) <= inputs[0].shape[-1],
                 ShapeError,
                 "softmax_cross_entropy: {} classes expected of logits {}",
                 classes_,
                 inputs[0].to_string());
  LOCKSTEP_CHECK(label_smoothing_ >= 0.0f && label_smoothing_ < 1.0f,
                 ShapeError,
                 "softmax_cross_entropy: label smoothing must be in [0, 1), got {}",
                 label_smoothing_);
  if (!class_weights_.empty()) {
    LOCKSTEP_CHECK(std::ssize(class_weights_) == classes(inputs[0]),
                   ShapeError,
                   "softmax_cross_entropy: expected a weight for each of {} classes, got {}",
                   classes(inputs[0]),
                   class_weights_.size());
    const bool valid =
        std::ranges::all_of(class_weights_, [](float w) { return w >= 0 && std::isfinite(w); });
    LOCKSTEP_CHECK(valid,
                   ShapeError,
                   "softmax_cross_entropy: weights of classes must be finite and at least 0");
  }
  std::vector<TensorType> types(std::size_t(gradient_output()), TensorType{{1}, DType::f32});
  if (with_gradient_) types.push_back(inputs[0]);
  return types;
}

std::vector<ValueId> SoftmaxCrossEntropy::gradient(GradientBuilder&,
                                                   const Node& node,
                                                   std::span<const ValueId>) const {
  LOCKSTEP_ASSERT(with_gradient_);
  return {node.outputs[std::size_t(gradient_output())], kNoValue, kNoValue};
}

}  // namespace lockstep::ops
