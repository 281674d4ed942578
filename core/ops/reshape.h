// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// The same elements under another shape; a view, no kernel runs.
/// Shapes: [N, ...] -> [N, sample...] with equal numbers of elements.
class Reshape final : public OpBase<OpKind::reshape> {
 public:
  /// `sample`: the new extents without the leading N.
  explicit Reshape(const Shape& sample) : sample_(sample) {}

  std::string attributes() const override { return "sample=" + sample_.to_string(); }
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;
  bool is_view() const override { return true; }

 private:
  Shape sample_;
};

}  // namespace lockstep::ops
