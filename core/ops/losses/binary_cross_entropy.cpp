// SPDX-License-Identifier: Apache-2.0
#include "core/ops/losses/binary_cross_entropy.h"

namespace lockstep::ops {

std::vector<TensorType> BinaryCrossEntropy::infer(std::span<const TensorType> inputs) const {
  expect_inputs("binary_cross_entropy", inputs, 3);
  expect_tensor("binary_cross_entropy", "logits", inputs[0], 2);
  expect_same("binary_cross_entropy", "target", inputs[1], inputs[0]);
  expect_same("binary_cross_entropy", "sample_weight", inputs[2], {{1}, DType::f32});
  std::vector<TensorType> types(2, TensorType{{1}, DType::f32});
  if (with_gradient_) types.push_back(inputs[0]);
  return types;
}

std::vector<ValueId> BinaryCrossEntropy::gradient(GradientBuilder&,
                                                  const Node& node,
                                                  std::span<const ValueId>) const {
  LOCKSTEP_ASSERT(with_gradient_);
  return {node.outputs[2], kNoValue, kNoValue};
}

}  // namespace lockstep::ops
