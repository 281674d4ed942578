// SPDX-License-Identifier: Apache-2.0
#include "core/ops/linear.h"

#include "core/graph/gradient_builder.h"
#include "core/ops/activations/gelu.h"
#include "core/ops/activations/relu.h"

namespace lockstep::ops {
namespace {

/// `shape` with another last extent.
Shape with_features(const Shape& shape, std::int64_t features) {
  const auto outer = shape.dims().first(std::size_t(shape.rank() - 1));
  std::vector<std::int64_t> dims(outer.begin(), outer.end());
  dims.push_back(features);
  return Shape(dims);
}

std::int64_t rows(const Shape& shape) {
  return Shape(shape.dims().first(std::size_t(shape.rank() - 1))).elems();
}

Cost product_cost(Cost cost, std::int64_t m, std::int64_t n, std::int64_t k) {
  cost.flops = 2.0 * double(m) * double(n) * double(k);
  return cost;
}

}  // namespace

std::string Linear::attributes() const {
  if (padded_out_ > 0) return fmt::format("padded_out={}", padded_out_);
  return fmt::format("{}{}{}{}",
                     bias_ ? "bias" : "",
                     bias_ && activation_ != Activation::none ? " " : "",
                     name_of(activation_),
                     keeps_input_of_activation() ? " kept" : "");
}

std::vector<TensorType> Linear::infer(std::span<const TensorType> inputs) const {
  expect_inputs("linear", inputs, bias_ ? 3 : 2);
  expect_activation("linear", "input", inputs[0]);
  LOCKSTEP_CHECK(inputs[0].shape.rank() >= 2,
                 ShapeError,
                 "linear: input must be [N, ..., features], got {}",
                 inputs[0].to_string());
  expect_tensor("linear", "weight", inputs[1], 2);
  LOCKSTEP_CHECK(inputs[0].shape[-1] == inputs[1].shape[1],
                 ShapeError,
                 "linear: input {} has {} features, weight {} expects {}",
                 inputs[0].to_string(),
                 inputs[0].shape[-1],
                 inputs[1].to_string(),
                 inputs[1].shape[1]);
  if (bias_) expect_same("linear", "bias", inputs[2], {{inputs[1].shape[0]}, DType::f32});
  if (padded_out_ > 0) {
    LOCKSTEP_CHECK(!bias_ && activation_ == Activation::none && inputs[0].dtype == DType::bf16 &&
                       padded_out_ >= inputs[1].shape[0],
                   ShapeError,
                   "linear: padded rows are for bf16, without bias and activation, and at least as "
                   "long as the weight's {} rows, got {} for {}",
                   inputs[1].shape[0],
                   padded_out_,
                   inputs[0].to_string());
    return {{with_features(inputs[0].shape, padded_out_), inputs[0].dtype}};
  }
  const TensorType y{with_features(inputs[0].shape, inputs[1].shape[0]), inputs[0].dtype};
  if (keeps_input_of_activation()) return {y, y};
  return {y};
}

Cost Linear::cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  return product_cost(
      OpBase::cost(inputs, outputs), rows(inputs[0].shape), inputs[1].shape[0], inputs[1].shape[1]);
}

std::vector<ValueId> Linear::gradient(GradientBuilder& builder,
                                      const Node& node,
                                      std::span<const ValueId> output_grads) const {
  std::vector<ValueId> grads(node.inputs.size(), kNoValue);
  ValueId dy = output_grads[0];
  if (activation_ == Activation::relu)
    dy = builder.emit(node, std::make_shared<ReluBwd>(), {dy, node.outputs[0]})[0];
  if (is_gelu(activation_)) {
    LOCKSTEP_ASSERT(training_);
    const GeluKind kind = activation_ == Activation::gelu_erf ? GeluKind::erf : GeluKind::tanh;
    dy = builder.emit(node, std::make_shared<GeluBwd>(kind), {dy, node.outputs[1]})[0];
  }
  const ValueId x = node.inputs[0], weight = node.inputs[1];
  if (builder.needs_grad(weight) || (bias_ && builder.needs_grad(node.inputs[2]))) {
    const std::int64_t counted = padded_out_ > 0 ? builder.type(weight).shape[0] : 0;
    const auto out =
        builder.emit(node, std::make_shared<LinearBwdWeights>(bias_, counted), {x, dy});
    for (std::size_t i = 0; i < out.size(); ++i) grads[1 + i] = out[i];
  }
  if (builder.needs_grad(x))
    grads[0] = builder.emit(node, std::make_shared<LinearBwdData>(), {dy, weight})[0];
  return grads;
}

std::vector<TensorType> LinearBwdData::infer(std::span<const TensorType> inputs) const {
  LOCKSTEP_ASSERT(before_ == Activation::none || is_gelu(before_));
  expect_inputs("linear_bwd_data", inputs, before_ == Activation::none ? 2 : 3);
  const std::int64_t more = inputs[0].shape[-1] - inputs[1].shape[0];
  LOCKSTEP_CHECK(more == 0 || (more > 0 && inputs[0].dtype == DType::bf16),
                 ShapeError,
                 "linear_bwd_data: dy {} does not have the features of weight {}",
                 inputs[0].to_string(),
                 inputs[1].to_string());
  const TensorType dx{with_features(inputs[0].shape, inputs[1].shape[1]), inputs[0].dtype};
  if (before_ != Activation::none) expect_same("linear_bwd_data", "input of GELU", inputs[2], dx);
  return {dx};
}

Cost LinearBwdData::cost(std::span<const TensorType> inputs,
                         std::span<const TensorType> outputs) const {
  return product_cost(
      OpBase::cost(inputs, outputs), rows(inputs[0].shape), inputs[1].shape[0], inputs[1].shape[1]);
}

std::string LinearBwdWeights::attributes() const {
  if (out_ > 0) return fmt::format("out={}", out_);
  return bias_ ? "bias" : "";
}

std::vector<TensorType> LinearBwdWeights::infer(std::span<const TensorType> inputs) const {
  expect_inputs("linear_bwd_weights", inputs, 2);
  const std::int64_t in = inputs[0].shape[-1], out = out_ > 0 ? out_ : inputs[1].shape[-1];
  LOCKSTEP_CHECK(out_ == 0 || (!bias_ && out_ <= inputs[1].shape[-1]),
                 ShapeError,
                 "linear_bwd_weights: {} features, without bias, expected of dy {}",
                 out_,
                 inputs[1].to_string());
  std::vector<TensorType> types{{{out, in}, DType::f32}};
  if (bias_) types.push_back({{out}, DType::f32});
  return types;
}

Cost LinearBwdWeights::cost(std::span<const TensorType> inputs,
                            std::span<const TensorType> outputs) const {
  return product_cost(OpBase::cost(inputs, outputs),
                      rows(inputs[0].shape),
                      inputs[0].shape[-1],
                      outputs[0].shape[0]);
}

}  // namespace lockstep::ops
