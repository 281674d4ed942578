// SPDX-License-Identifier: Apache-2.0
#include "core/ops/conv2d.h"

#include "core/graph/gradient_builder.h"
#include "core/ops/activations/relu.h"

namespace lockstep::ops {
namespace {

std::string describe(const Conv2dAttrs& a) {
  return fmt::format("stride={},{} padding={},{} groups={}{}{}",
                     a.stride_h,
                     a.stride_w,
                     a.padding_h,
                     a.padding_w,
                     a.groups,
                     a.bias ? " bias" : "",
                     a.relu ? " relu" : "");
}

/// 2 N P Q O R S C/groups operations, whichever of the three products it is.
Cost product_cost(Cost cost, const Shape& output, const Shape& weight) {
  cost.flops = 2.0 * double(output.elems()) * double(weight[1] * weight[2] * weight[3]);
  return cost;
}

std::int64_t output_extent(std::int64_t in, std::int64_t kernel, int stride, int padding) {
  return (in + 2 * std::int64_t(padding) - kernel) / stride + 1;
}

}  // namespace

std::string Conv2d::attributes() const { return describe(attrs_); }

std::vector<TensorType> Conv2d::infer(std::span<const TensorType> inputs) const {
  expect_inputs("conv2d", inputs, attrs_.bias ? 3 : 2);
  expect_activation("conv2d", "input", inputs[0], 4);
  expect_tensor("conv2d", "weight", inputs[1], 4);
  const Shape& x = inputs[0].shape;
  const Shape& w = inputs[1].shape;
  LOCKSTEP_CHECK(attrs_.stride_h >= 1 && attrs_.stride_w >= 1 && attrs_.padding_h >= 0 &&
                     attrs_.padding_w >= 0 && attrs_.groups >= 1,
                 ShapeError,
                 "conv2d: stride and groups must be at least 1 and padding at least 0, got {}",
                 attributes());
  LOCKSTEP_CHECK(x[3] == w[3] * attrs_.groups && w[0] % attrs_.groups == 0,
                 ShapeError,
                 "conv2d: input {} has {} channels, weight {} with groups={} expects {}",
                 inputs[0].to_string(),
                 x[3],
                 inputs[1].to_string(),
                 attrs_.groups,
                 w[3] * attrs_.groups);
  LOCKSTEP_CHECK(x[1] + 2 * std::int64_t(attrs_.padding_h) >= w[1] &&
                     x[2] + 2 * std::int64_t(attrs_.padding_w) >= w[2],
                 ShapeError,
                 "conv2d: the {}x{} kernel is larger than the padded input {}",
                 w[1],
                 w[2],
                 inputs[0].to_string());
  if (attrs_.bias) expect_same("conv2d", "bias", inputs[2], {{w[0]}, DType::f32});
  return {{{x[0],
            output_extent(x[1], w[1], attrs_.stride_h, attrs_.padding_h),
            output_extent(x[2], w[2], attrs_.stride_w, attrs_.padding_w),
            w[0]},
           inputs[0].dtype}};
}

Cost Conv2d::cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  return product_cost(OpBase::cost(inputs, outputs), outputs[0].shape, inputs[1].shape);
}

std::vector<ValueId> Conv2d::gradient(GradientBuilder& builder,
                                      const Node& node,
                                      std::span<const ValueId> output_grads) const {
  std::vector<ValueId> grads(node.inputs.size(), kNoValue);
  ValueId dy = output_grads[0];
  if (attrs_.relu) dy = builder.emit(node, std::make_shared<ReluBwd>(), {dy, node.outputs[0]})[0];
  Conv2dAttrs attrs = attrs_;
  attrs.relu = false;
  const ValueId x = node.inputs[0], weight = node.inputs[1];
  if (builder.needs_grad(weight) || (attrs_.bias && builder.needs_grad(node.inputs[2]))) {
    const auto out = builder.emit(
        node, std::make_shared<Conv2dBwdWeights>(attrs, builder.type(weight).shape), {x, dy});
    for (std::size_t i = 0; i < out.size(); ++i) grads[1 + i] = out[i];
  }
  if (builder.needs_grad(x))
    grads[0] = builder.emit(
        node, std::make_shared<Conv2dBwdData>(attrs, builder.type(x).shape), {dy, weight})[0];
  return grads;
}

std::string Conv2dBwdData::attributes() const {
  return fmt::format("{} input={}x{}", describe(attrs_), input_[1], input_[2]);
}

std::vector<TensorType> Conv2dBwdData::infer(std::span<const TensorType> inputs) const {
  expect_inputs("conv2d_bwd_data", inputs, 2);
  return {{{inputs[0].shape[0], input_[1], input_[2], input_[3]}, inputs[0].dtype}};
}

Cost Conv2dBwdData::cost(std::span<const TensorType> inputs,
                         std::span<const TensorType> outputs) const {
  return product_cost(OpBase::cost(inputs, outputs), inputs[0].shape, inputs[1].shape);
}

std::string Conv2dBwdWeights::attributes() const {
  return fmt::format("{} kernel={}x{}", describe(attrs_), weight_[1], weight_[2]);
}

std::vector<TensorType> Conv2dBwdWeights::infer(std::span<const TensorType> inputs) const {
  expect_inputs("conv2d_bwd_weights", inputs, 2);
  std::vector<TensorType> types{{weight_, DType::f32}};
  if (attrs_.bias) types.push_back({{weight_[0]}, DType::f32});
  return types;
}

Cost Conv2dBwdWeights::cost(std::span<const TensorType> inputs,
                            std::span<const TensorType> outputs) const {
  return product_cost(OpBase::cost(inputs, outputs), inputs[1].shape, weight_);
}

}  // namespace lockstep::ops
