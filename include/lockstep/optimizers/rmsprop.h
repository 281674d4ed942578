// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep {

struct OptimizerHyperParameter;
struct StepScalars;
enum class UpdatePhase : std::uint8_t;

/// RMSprop (Hinton 2012, "Neural Networks for Machine Learning", lecture 6e), with momentum and
/// centered as Graves 2013 ("Generating Sequences With Recurrent Neural Networks", equations 38 to
/// 41), as PyTorch writes it. For each element p of the parameters and g of their gradients:
///   g = g * grad_scale + weight_decay * p
///   v = alpha * v + (1 - alpha) * g^2
///   a = alpha * a + (1 - alpha) * g                    where centered
///   d = g / (sqrt(centered ? max(v - a^2, 0) : v) + eps)
///   b = momentum * b + d                               where momentum > 0, otherwise b = d
///   p = p - lr * lr_scale * b
/// State: v, a where centered, b where momentum > 0, zero at the start. Where a gradient hardly
/// changes, v - a^2 may come out below 0 by rounding: PyTorch's root is NaN there, this one 0.
/// Graves has eps inside of the root. grad_scale is what clipping leaves of a gradient (1: all of
/// it), lr_scale the learning-rate schedule's rate over lr.
struct RmsProp {
  float lr = 0.01f;
  float alpha = 0.99f;
  float eps = 1e-8f;
  float momentum = 0.0f;
  bool centered = false;
  float weight_decay = 0.0f;

  /// What Lockstep asks every optimizer: Note [What an optimizer defines] in its sources.
  static constexpr bool kAdaptive = true;
  std::vector<OptimizerHyperParameter> hyper_parameters();
  void validate() const;
  std::vector<std::string_view> state_names() const;
  StepScalars step_scalars(std::uint64_t step) const;
  std::vector<UpdatePhase> phases() const;
};

}  // namespace lockstep
