// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

struct Conv2dAttrs {
  int stride_h = 1, stride_w = 1;
  int padding_h = 0, padding_w = 0;  ///< zeros on both sides
  int groups = 1;
  bool bias = false;
  bool relu = false;  ///< y = max(0, ...); of the forward operator alone
};

/// Two-dimensional cross-correlation, as PyTorch's conv2d:
///   y[n, p, q, o] = b[o] + sum_{r, s, i} W[o, r, s, i] x[n, p*stride - pad + r, q*stride - pad +
///   s, g*I + i]
/// with I = C / groups input channels per group and g = o / (O / groups).
/// Shapes: x: [N, H, W, C] f32, W: [O, R, S, C / groups] f32, b: [O] f32 (absent without bias)
///   -> y: [N, P, Q, O] f32, P = (H + 2 pad - R) / stride + 1.
class Conv2d final : public OpBase<OpKind::conv2d> {
 public:
  explicit Conv2d(const Conv2dAttrs& attrs) : attrs_(attrs) {}
  const Conv2dAttrs& attrs() const { return attrs_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;

 private:
  Conv2dAttrs attrs_;
};

/// Gradient of conv2d with respect to x. Shapes: dy: [N, P, Q, O], W: [O, R, S, C / groups]
///   -> dx: [N, H, W, C]; H and W are attributes, since stride hides them.
class Conv2dBwdData final : public OpBase<OpKind::conv2d_bwd_data> {
 public:
  Conv2dBwdData(const Conv2dAttrs& attrs, const Shape& input) : attrs_(attrs), input_(input) {}
  const Conv2dAttrs& attrs() const { return attrs_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;

 private:
  Conv2dAttrs attrs_;
  Shape input_;
};

/// Gradients of conv2d with respect to W and b, summed over samples.
/// Shapes: x: [N, H, W, C], dy: [N, P, Q, O] -> dW: [O, R, S, C / groups], db: [O] (with bias).
class Conv2dBwdWeights final : public OpBase<OpKind::conv2d_bwd_weights> {
 public:
  Conv2dBwdWeights(const Conv2dAttrs& attrs, const Shape& weight)
      : attrs_(attrs), weight_(weight) {}
  const Conv2dAttrs& attrs() const { return attrs_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
  bool accumulates(int) const override { return true; }

 private:
  Conv2dAttrs attrs_;
  Shape weight_;
};

}  // namespace lockstep::ops
