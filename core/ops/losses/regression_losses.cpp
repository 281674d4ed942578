// SPDX-License-Identifier: Apache-2.0
#include "core/ops/losses/regression_losses.h"

#include <cmath>

namespace lockstep::ops {

template <OpKind K>
std::vector<TensorType> RegressionLoss<K>::infer(std::span<const TensorType> inputs) const {
  expect_inputs(name_of(K), inputs, 3);
  expect_tensor(name_of(K), "prediction", inputs[0], 2);
  expect_same(name_of(K), "target", inputs[1], inputs[0]);
  expect_same(name_of(K), "sample_weight", inputs[2], {{1}, DType::f32});
  std::vector<TensorType> types{{{1}, DType::f32}};
  if (with_gradient_) types.push_back(inputs[0]);
  return types;
}

template <OpKind K>
std::vector<ValueId> RegressionLoss<K>::gradient(GradientBuilder&,
                                                 const Node& node,
                                                 std::span<const ValueId>) const {
  LOCKSTEP_ASSERT(with_gradient_);
  return {node.outputs[1], kNoValue, kNoValue};
}

template class RegressionLoss<OpKind::mean_squared_error>;
template class RegressionLoss<OpKind::l1_loss>;
template class RegressionLoss<OpKind::huber_loss>;

std::string HuberLoss::attributes() const {
  return fmt::format("delta={}{}", delta_, with_gradient() ? " with_gradient" : "");
}

std::vector<TensorType> HuberLoss::infer(std::span<const TensorType> inputs) const {
  LOCKSTEP_CHECK(delta_ > 0.0f && std::isfinite(delta_),
                 ShapeError,
                 "huber_loss: delta must be finite and above 0, got {}",
                 delta_);
  return RegressionLoss::infer(inputs);
}

}  // namespace lockstep::ops
