// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/pooling/pool2d.h"

namespace lockstep::ops {

/// y = the mean of each window over all kernel_h * kernel_w positions, padding counted as zeros
/// (PyTorch's count_include_pad). Shapes: x: [N, H, W, C] f32 -> y: [N, P, Q, C] f32.
class AvgPool2d final : public OpBase<OpKind::avg_pool2d> {
 public:
  explicit AvgPool2d(const Pool2dAttrs& attrs) : attrs_(attrs) {}
  const Pool2dAttrs& attrs() const { return attrs_; }

  std::string attributes() const override { return to_string(attrs_); }
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;

 private:
  Pool2dAttrs attrs_;
};

/// dx = sum of dy over the windows that hold each element, over kernel_h * kernel_w, in window
/// order. Shapes: dy: [N, P, Q, C] f32 -> dx: [N, H, W, C] f32.
class AvgPool2dBwd final : public OpBase<OpKind::avg_pool2d_bwd> {
 public:
  AvgPool2dBwd(const Pool2dAttrs& attrs, const Shape& input) : attrs_(attrs), input_(input) {}
  const Pool2dAttrs& attrs() const { return attrs_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;

 private:
  Pool2dAttrs attrs_;
  Shape input_;
};

}  // namespace lockstep::ops
