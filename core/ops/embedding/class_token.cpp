// SPDX-License-Identifier: Apache-2.0
#include "core/ops/embedding/class_token.h"

#include "core/graph/gradient_builder.h"
#include "core/ops/embedding/embedding.h"
#include "core/ops/narrow.h"
#include "core/ops/reshape.h"

namespace lockstep::ops {

std::vector<TensorType> ClassToken::infer(std::span<const TensorType> inputs) const {
  expect_inputs("class_token", inputs, 3);
  expect_activation("class_token", "input", inputs[0]);
  const Shape& x = inputs[0].shape;
  LOCKSTEP_CHECK(x.rank() == 3 || x.rank() == 4,
                 ShapeError,
                 "class_token: expected an input [N, T, C] or [N, H, W, C], got {}",
                 inputs[0].to_string());
  const std::int64_t width = x[-1], tokens = x.rank() == 3 ? x[1] : x[1] * x[2];
  expect_same("class_token", "token", inputs[1], {{1, width}, DType::f32});
  expect_tensor("class_token", "position table", inputs[2], 2);
  LOCKSTEP_CHECK(inputs[2].shape[0] == tokens + 1 && inputs[2].shape[1] == width,
                 ShapeError,
                 "class_token: {} tokens of {} values and the class token need a position table of "
                 "{} rows, got {}",
                 tokens,
                 width,
                 tokens + 1,
                 inputs[2].to_string());
  return {{{x[0], tokens + 1, width}, inputs[0].dtype}};
}

std::vector<ValueId> ClassToken::gradient(GradientBuilder& builder,
                                          const Node& node,
                                          std::span<const ValueId> output_grads) const {
  std::vector<ValueId> grads(node.inputs.size(), kNoValue);
  const ValueId dy = output_grads[0];
  const Shape& x = builder.type(node.inputs[0]).shape;
  const std::int64_t tokens = builder.type(dy).shape[1];
  if (builder.needs_grad(node.inputs[0])) {
    ValueId dx = builder.emit(node, std::make_shared<Narrow>(1, tokens - 1), {dy})[0];
    if (x.rank() == 4)
      dx = builder.emit(node, std::make_shared<Reshape>(Shape{x[1], x[2], x[3]}), {dx})[0];
    grads[0] = dx;
  }
  if (builder.needs_grad(node.inputs[1])) {
    const ValueId first = builder.emit(node, std::make_shared<Narrow>(0, 1), {dy})[0];
    grads[1] = builder.emit(node, std::make_shared<EmbeddingBwdPositions>(1), {first})[0];
  }
  if (builder.needs_grad(node.inputs[2]))
    grads[2] = builder.emit(node, std::make_shared<EmbeddingBwdPositions>(tokens), {dy})[0];
  return grads;
}

}  // namespace lockstep::ops
