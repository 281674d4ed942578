// SPDX-License-Identifier: Apache-2.0
#include "core/ops/losses/distillation_loss.h"

#include <cmath>

namespace lockstep::ops {

std::string DistillationLoss::attributes() const {
  return fmt::format("alpha={} temperature={}{}{}",
                     distilled_.alpha,
                     distilled_.temperature,
                     distilled_.hard ? " hard" : "",
                     with_gradient_ ? " with_gradient" : "");
}

std::vector<TensorType> DistillationLoss::infer(std::span<const TensorType> inputs) const {
  expect_inputs("distillation_loss", inputs, 4);
  expect_tensor("distillation_loss", "logits", inputs[0], 2);
  expect_same("distillation_loss", "teacher", inputs[1], inputs[0]);
  expect_same("distillation_loss", "sample_weight", inputs[2], {{1}, DType::f32});
  expect_same("distillation_loss", "base", inputs[3], {{1}, DType::f32});
  LOCKSTEP_CHECK(inputs[0].shape[1] >= 1, ShapeError, "distillation_loss: no classes");
  LOCKSTEP_CHECK(distilled_.alpha > 0 && distilled_.alpha <= 1,
                 ShapeError,
                 "distillation_loss: alpha must be above 0 and at most 1, got {}",
                 distilled_.alpha);
  LOCKSTEP_CHECK(distilled_.temperature > 0 && std::isfinite(distilled_.temperature) &&
                     (!distilled_.hard || distilled_.temperature == 1),
                 ShapeError,
                 "distillation_loss: expected a finite temperature above 0, and 1 of a hard "
                 "teacher, got {}",
                 distilled_.temperature);
  std::vector<TensorType> types{{{1}, DType::f32}};
  if (with_gradient_) types.push_back(inputs[0]);
  return types;
}

// That of `base` is one, which no loss looks at: any value says that it counts.
std::vector<ValueId> DistillationLoss::gradient(GradientBuilder&,
                                                const Node& node,
                                                std::span<const ValueId>) const {
  LOCKSTEP_ASSERT(with_gradient_);
  return {node.outputs[1], kNoValue, kNoValue, node.outputs[0]};
}

}  // namespace lockstep::ops
