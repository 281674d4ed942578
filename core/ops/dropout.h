// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// Inverted dropout (Srivastava et al. 2014): y = keep ? x / (1 - rate) : 0.
/// Element e of sample n is kept where word e % 4 of
///   philox(random_key(seed, path), step, (first_sample + n) << 32 | e / 4)
/// is at least round(rate * 2^32). It depends on neither rank nor micro-batch, and the gradient is
/// the same operator on dy. Shapes: [N, ...] f32 or bf16, at most 2^34 elements a sample. y may
/// overwrite x.
/// Of whole samples (stochastic depth, Huang et al. 2016; "row" in torchvision): all elements of a
/// sample are kept or dropped as its element 0.
class Dropout final : public OpBase<OpKind::dropout> {
 public:
  explicit Dropout(float rate, bool whole_samples = false)
      : rate_(rate), whole_samples_(whole_samples) {}
  float rate() const { return rate_; }
  bool whole_samples() const { return whole_samples_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;
  int in_place_input(int) const override { return 0; }

 private:
  float rate_;
  bool whole_samples_;
};

}  // namespace lockstep::ops
