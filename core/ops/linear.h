// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/activations/activation.h"
#include "core/ops/op_base.h"

namespace lockstep::ops {

/// Fully connected layer: y = f(x W^T + b), f an activation or the identity.
/// Shapes: x: [N, ..., in] f32 or bf16, W: [out, in] f32, b: [out] f32 (absent without bias)
///   -> y: [N, ..., out] as x, and where backward needs it (GELU in training) x W^T + b, as y.
/// Rows are all extents but the last. Those of y may be longer, `padded_out`, with zeros after
/// `out`: in bf16, without bias and activation; see core/plan/pad_logits.h.
class Linear final : public OpBase<OpKind::linear> {
 public:
  explicit Linear(bool bias,
                  Activation activation = Activation::none,
                  bool training = false,
                  std::int64_t padded_out = 0)
      : bias_(bias), activation_(activation), training_(training), padded_out_(padded_out) {}
  bool bias() const { return bias_; }
  /// Length of y's rows where they are padded; 0: they are not.
  std::int64_t padded_out() const { return padded_out_; }
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
  std::int64_t padded_out_;
};

/// dx = dy W, and with GELU before the layer what flows into that: dh = (dy W) gelu'(h).
/// Shapes: dy: [N, ..., out] f32 or bf16, W: [out, in] f32, with GELU h: [N, ..., in] as dy
///   -> dx or dh: [N, ..., in] as dy. Rows of dy may be padded with zeros.
/// Its cost has the product's FLOPs alone, as that of Linear with an activation.
class LinearBwdData final : public OpBase<OpKind::linear_bwd_data> {
 public:
  /// `before`: none or a GELU.
  explicit LinearBwdData(Activation before = Activation::none) : before_(before) {}
  Activation before() const { return before_; }

  std::string attributes() const override { return std::string(name_of(before_)); }
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;

 private:
  Activation before_;
};

/// dW = dy^T x and db[o] = sum_n dy[n, o], each summed over rows in a fixed order.
/// Shapes: x: [N, ..., in], dy: [N, ..., out], f32 or bf16 -> dW: [out, in], db: [out] (absent
/// without bias), f32. Without bias rows of dy may be longer than `out`; what is after is not
/// read.
class LinearBwdWeights final : public OpBase<OpKind::linear_bwd_weights> {
 public:
  /// `out`: 0 where dy's rows are not padded.
  explicit LinearBwdWeights(bool bias, std::int64_t out = 0) : bias_(bias), out_(out) {}
  bool bias() const { return bias_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
  bool accumulates(int) const override { return true; }

 private:
  bool bias_;
  std::int64_t out_;
};

}  // namespace lockstep::ops
