// SPDX-License-Identifier: Apache-2.0
#include "core/ops/add.h"

namespace lockstep::ops {

std::vector<TensorType> Add::infer(std::span<const TensorType> inputs) const {
  expect_inputs("add", inputs, 2);
  expect_activation("add", "first input", inputs[0]);
  expect_same("add", "second input", inputs[1], inputs[0]);
  return {inputs[0]};
}

std::vector<ValueId> Add::gradient(GradientBuilder&,
                                   const Node&,
                                   std::span<const ValueId> output_grads) const {
  return {output_grads[0], output_grads[0]};
}

}  // namespace lockstep::ops
