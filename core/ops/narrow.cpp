// SPDX-License-Identifier: Apache-2.0
#include "core/ops/narrow.h"

#include "core/graph/gradient_builder.h"

namespace lockstep::ops {

std::string Narrow::attributes() const {
  return fmt::format("start={} length={}", start_, length_);
}

std::vector<TensorType> Narrow::infer(std::span<const TensorType> inputs) const {
  expect_inputs("narrow", inputs, 1);
  expect_activation("narrow", "input", inputs[0], 3);
  const Shape& x = inputs[0].shape;
  LOCKSTEP_CHECK(start_ >= 0 && length_ >= 0 && start_ <= x[1] && length_ <= x[1] - start_,
                 ShapeError,
                 "narrow: {} tokens from token {} on, of {}",
                 length_,
                 start_,
                 inputs[0].to_string());
  return {{{x[0], length_, x[2]}, inputs[0].dtype}};
}

Cost Narrow::cost(std::span<const TensorType>, std::span<const TensorType> outputs) const {
  return {0, 2 * double(outputs[0].bytes())};
}

std::vector<ValueId> Narrow::gradient(GradientBuilder& builder,
                                      const Node& node,
                                      std::span<const ValueId> output_grads) const {
  if (!builder.needs_grad(node.inputs[0])) return {kNoValue};
  const std::int64_t tokens = builder.type(node.inputs[0]).shape[1];
  return builder.emit(node, std::make_shared<NarrowBwd>(start_, tokens), {output_grads[0]});
}

std::string NarrowBwd::attributes() const {
  return fmt::format("start={} tokens={}", start_, tokens_);
}

std::vector<TensorType> NarrowBwd::infer(std::span<const TensorType> inputs) const {
  expect_inputs("narrow_bwd", inputs, 1);
  expect_activation("narrow_bwd", "dy", inputs[0], 3);
  const Shape& dy = inputs[0].shape;
  LOCKSTEP_CHECK(start_ >= 0 && start_ <= tokens_ && dy[1] <= tokens_ - start_,
                 ShapeError,
                 "narrow_bwd: {} from token {} on, of {} tokens",
                 inputs[0].to_string(),
                 start_,
                 tokens_);
  return {{{dy[0], tokens_, dy[2]}, inputs[0].dtype}};
}

Cost NarrowBwd::cost(std::span<const TensorType> inputs,
                     std::span<const TensorType> outputs) const {
  return {0, double(inputs[0].bytes()) + double(outputs[0].bytes())};
}

}  // namespace lockstep::ops
