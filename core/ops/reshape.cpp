// SPDX-License-Identifier: Apache-2.0
#include "core/ops/reshape.h"

#include "core/graph/gradient_builder.h"

namespace lockstep::ops {

std::string Reshape::attributes() const {
  return fmt::format(
      "sample={}{}", sample_.to_string(), samples_ < 0 ? "" : fmt::format(" samples={}", samples_));
}

std::vector<TensorType> Reshape::infer(std::span<const TensorType> inputs) const {
  expect_inputs("reshape", inputs, 1);
  LOCKSTEP_CHECK(inputs[0].shape.rank() >= 1, ShapeError, "reshape: input has no samples");
  std::vector<std::int64_t> dims{samples_ < 0 ? inputs[0].shape[0] : samples_};
  dims.insert(dims.end(), sample_.dims().begin(), sample_.dims().end());
  const TensorType result{Shape(dims), inputs[0].dtype};
  LOCKSTEP_CHECK(result.elems() == inputs[0].elems(),
                 ShapeError,
                 "reshape: {} has a different element count than {}",
                 inputs[0].to_string(),
                 result.to_string());
  return {result};
}

std::vector<ValueId> Reshape::gradient(GradientBuilder& builder,
                                       const Node& node,
                                       std::span<const ValueId> output_grads) const {
  if (!builder.needs_grad(node.inputs[0])) return {kNoValue};
  const Shape& input = builder.type(node.inputs[0]).shape;
  return builder.emit(
      node,
      std::make_shared<Reshape>(Shape(input.dims().subspan(1)), samples_ < 0 ? -1 : input[0]),
      {output_grads[0]});
}

}  // namespace lockstep::ops
