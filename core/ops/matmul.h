// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// y = alpha op(a) op(b) + beta d, op the identity or the transpose; d is absent where beta is 0.
/// Shapes: op(a): [m, k], op(b): [k, n], d: [m, n] -> y: [m, n]; all f32, all extents at least 1.
/// Sums over k have a fixed order. For programs of optimizers: it has no gradient.
class Matmul final : public OpBase<OpKind::matmul> {
 public:
  struct Attrs {
    bool transpose_a = false, transpose_b = false;
    float alpha = 1, beta = 0;
  };
  explicit Matmul(const Attrs& attrs) : attrs_(attrs) {}
  const Attrs& attrs() const { return attrs_; }
  /// Of op(a): columns.
  std::int64_t inner(std::span<const TensorType> inputs) const {
    return inputs[0].shape[attrs_.transpose_a ? 0 : 1];
  }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;

 private:
  Attrs attrs_;
};

}  // namespace lockstep::ops
