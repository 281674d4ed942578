// SPDX-License-Identifier: Apache-2.0
#include "core/ops/matmul.h"

namespace lockstep::ops {

std::string Matmul::attributes() const {
  return fmt::format("{}{}alpha={} beta={}",
                     attrs_.transpose_a ? "transpose_a " : "",
                     attrs_.transpose_b ? "transpose_b " : "",
                     attrs_.alpha,
                     attrs_.beta);
}

std::vector<TensorType> Matmul::infer(std::span<const TensorType> inputs) const {
  expect_inputs("matmul", inputs, attrs_.beta == 0 ? 2 : 3);
  expect_tensor("matmul", "first factor", inputs[0], 2);
  expect_tensor("matmul", "second factor", inputs[1], 2);
  const Shape &a = inputs[0].shape, &b = inputs[1].shape;
  LOCKSTEP_CHECK(inner(inputs) == b[attrs_.transpose_b ? 1 : 0] && a.elems() > 0 && b.elems() > 0,
                 ShapeError,
                 "matmul: {}{} and {}{} cannot be multiplied",
                 inputs[0].to_string(),
                 attrs_.transpose_a ? " transposed" : "",
                 inputs[1].to_string(),
                 attrs_.transpose_b ? " transposed" : "");
  const TensorType y{{a[attrs_.transpose_a ? 1 : 0], b[attrs_.transpose_b ? 0 : 1]}, DType::f32};
  if (attrs_.beta != 0) expect_same("matmul", "summand", inputs[2], y);
  return {y};
}

Cost Matmul::cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  Cost cost = OpBase::cost(inputs, outputs);
  cost.flops = 2.0 * double(outputs[0].elems()) * double(inner(inputs));
  return cost;
}

}  // namespace lockstep::ops
