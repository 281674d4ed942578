// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// y[n, c] = mean over h, w of x[n, h, w, c]. Shapes: x: [N, H, W, C] f32 -> y: [N, C] f32.
class GlobalAvgPool final : public OpBase<OpKind::global_avg_pool> {
 public:
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;
};

/// dx[n, h, w, c] = dy[n, c] / (H W). Shapes: dy: [N, C] f32 -> dx: [N, H, W, C] f32.
class GlobalAvgPoolBwd final : public OpBase<OpKind::global_avg_pool_bwd> {
 public:
  explicit GlobalAvgPoolBwd(const Shape& input) : input_(input) {}

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;

 private:
  Shape input_;
};

}  // namespace lockstep::ops
