// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/activations/activation.h"
#include "core/ops/op_base.h"

namespace lockstep::ops {

/// y = min(max(x, 0), limit); NaN stays NaN. Shapes: any, f32 or bf16. y may overwrite x.
/// A limit of 6 is ReLU6 (Krizhevsky 2010, "Convolutional deep belief networks on CIFAR-10").
class Relu final : public OpBase<OpKind::relu> {
 public:
  explicit Relu(float limit = kNoLimit) : limit_(limit) {}
  float limit() const { return limit_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;
  int in_place_input(int) const override { return 0; }

 private:
  float limit_;
};

/// dx = 0 < y < limit ? dy : 0, from the output y, so that x need not be kept. dx may overwrite dy.
/// Inputs: dy, y, any equal shapes, f32 or bf16.
class ReluBwd final : public OpBase<OpKind::relu_bwd> {
 public:
  explicit ReluBwd(float limit = kNoLimit) : limit_(limit) {}
  float limit() const { return limit_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  int in_place_input(int) const override { return 0; }

 private:
  float limit_;
};

}  // namespace lockstep::ops
