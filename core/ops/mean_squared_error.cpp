// SPDX-License-Identifier: Apache-2.0
#include "core/ops/mean_squared_error.h"

namespace lockstep::ops {

std::vector<TensorType> MeanSquaredError::infer(std::span<const TensorType> inputs) const {
  expect_inputs("mean_squared_error", inputs, 3);
  expect_tensor("mean_squared_error", "prediction", inputs[0], 2);
  expect_same("mean_squared_error", "target", inputs[1], inputs[0]);
  expect_same("mean_squared_error", "sample_weight", inputs[2], {{1}, DType::f32});
  std::vector<TensorType> types{{{1}, DType::f32}};
  if (with_gradient_) types.push_back(inputs[0]);
  return types;
}

std::vector<ValueId> MeanSquaredError::gradient(GradientBuilder&,
                                                const Node& node,
                                                std::span<const ValueId>) const {
  LOCKSTEP_ASSERT(with_gradient_);
  return {node.outputs[1], kNoValue, kNoValue};
}

}  // namespace lockstep::ops
