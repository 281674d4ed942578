// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/activation.h"
#include "core/ops/op_base.h"

namespace lockstep::ops {

/// Fully connected layer: y = f(x W^T + b), f an activation or the identity.
/// Shapes: x: [N, ..., in] f32 or bf16, W: [out, in] f32, b: [out] f32 (absent without bias)
///   -> y: [N, ..., out] as x, and where backward needs it (GELU in training) x W^T + b, as y.
/// Rows are all extents but the last.
class Linear final : public OpBase<OpKind::linear> {
 public:
  explicit Linear(bool bias, Activation activation = Activation::none, bool training = false)
      : bias_(bias), activation_(activation), training_(training) {}
  bool bias() const { return bias_; }
  Activation activation() const { return activation_; }
  /// Whether there is a second output, the activation's input.
  bool keeps_input_of_activation() const { return training_ && is_gelu(activation_); }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;

 private:
  bool bias_;
  Activation activation_;
  bool training_;
};

/// dx = dy W. Shapes: dy: [N, ..., out] f32 or bf16, W: [out, in] f32 -> dx: [N, ..., in] as dy.
class LinearBwdData final : public OpBase<OpKind::linear_bwd_data> {
 public:
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
};

/// dW = dy^T x and db[o] = sum_n dy[n, o], each summed over rows in a fixed order.
/// Shapes: x: [N, ..., in], dy: [N, ..., out], f32 or bf16 -> dW: [out, in], db: [out] (absent
/// without bias), f32.
class LinearBwdWeights final : public OpBase<OpKind::linear_bwd_weights> {
 public:
  explicit LinearBwdWeights(bool bias) : bias_(bias) {}
  bool bias() const { return bias_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
  bool accumulates(int) const override { return true; }

 private:
  bool bias_;
};

}  // namespace lockstep::ops
