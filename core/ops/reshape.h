// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// The same elements under another shape; a view, no kernel runs.
/// Shapes: [N, ...] -> [N, sample...] with equal numbers of elements, or [samples, sample...].
class Reshape final : public OpBase<OpKind::reshape> {
 public:
  /// `sample`: the new extents without the leading one, which is `samples`, or N where that is -1.
  explicit Reshape(const Shape& sample, std::int64_t samples = -1)
      : sample_(sample), samples_(samples) {}

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;
  bool is_view() const override { return true; }

 private:
  Shape sample_;
  std::int64_t samples_;
};

}  // namespace lockstep::ops
