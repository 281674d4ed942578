// SPDX-License-Identifier: Apache-2.0
#include "core/ops/embedding/embedding.h"

#include "core/graph/gradient_builder.h"

namespace lockstep::ops {

std::string Embedding::attributes() const {
  return fmt::format("{}{}", positions_ ? "positions" : "", output_ == DType::f32 ? "" : " bf16");
}

std::vector<TensorType> Embedding::infer(std::span<const TensorType> inputs) const {
  expect_inputs("embedding", inputs, positions_ ? 3 : 2);
  expect_tensor("embedding", "tokens", inputs[0], 2, DType::i32);
  expect_tensor("embedding", "token table", inputs[1], 2);
  const std::int64_t tokens = inputs[0].shape[1], width = inputs[1].shape[1];
  if (positions_) {
    expect_tensor("embedding", "position table", inputs[2], 2);
    LOCKSTEP_CHECK(inputs[2].shape[1] == width && inputs[2].shape[0] >= tokens,
                   ShapeError,
                   "embedding: {} tokens a sample need a position table of at least that many rows "
                   "of {} values, got {}",
                   tokens,
                   width,
                   inputs[2].to_string());
  }
  return {{{inputs[0].shape[0], tokens, width}, output_}};
}

Cost Embedding::cost(std::span<const TensorType> inputs,
                     std::span<const TensorType> outputs) const {
  const double elems = double(outputs[0].elems());
  const double tables = positions_ ? 2 : 1;
  return {positions_ ? elems : 0,
          double(inputs[0].bytes()) + double(outputs[0].bytes()) + tables * 4 * elems};
}

std::vector<ValueId> Embedding::gradient(GradientBuilder& builder,
                                         const Node& node,
                                         std::span<const ValueId> output_grads) const {
  std::vector<ValueId> grads(node.inputs.size(), kNoValue);
  const ValueId dy = output_grads[0];
  if (builder.needs_grad(node.inputs[1]))
    grads[1] =
        builder.emit(node,
                     std::make_shared<EmbeddingBwdTokens>(builder.type(node.inputs[1]).shape[0]),
                     {node.inputs[0], dy})[0];
  if (positions_ && builder.needs_grad(node.inputs[2]))
    grads[2] =
        builder.emit(node,
                     std::make_shared<EmbeddingBwdPositions>(builder.type(node.inputs[2]).shape[0]),
                     {dy})[0];
  return grads;
}

std::string EmbeddingBwdTokens::attributes() const {
  return fmt::format("vocabulary={}", vocabulary_);
}

std::vector<TensorType> EmbeddingBwdTokens::infer(std::span<const TensorType> inputs) const {
  expect_inputs("embedding_bwd_tokens", inputs, 2);
  expect_tensor("embedding_bwd_tokens", "tokens", inputs[0], 2, DType::i32);
  expect_activation("embedding_bwd_tokens", "dy", inputs[1], 3);
  return {{{vocabulary_, inputs[1].shape[2]}, DType::f32}};
}

std::string EmbeddingBwdPositions::attributes() const {
  return fmt::format("positions={}", positions_);
}

std::vector<TensorType> EmbeddingBwdPositions::infer(std::span<const TensorType> inputs) const {
  expect_inputs("embedding_bwd_positions", inputs, 1);
  expect_activation("embedding_bwd_positions", "dy", inputs[0], 3);
  return {{{positions_, inputs[0].shape[2]}, DType::f32}};
}

}  // namespace lockstep::ops
