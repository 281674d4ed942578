// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep {

struct OptimizerHyperParameter;
struct StepScalars;
enum class UpdatePhase : std::uint8_t;

/// Stochastic gradient descent with momentum (Sutskever et al. 2013, "On the importance of
/// initialization and momentum in deep learning", as PyTorch writes it). For each element p of the
/// parameters and g of their gradients:
///   g = g * grad_scale + weight_decay * p
///   m = step == 0 ? g : momentum * m + g
///   p = p - lr * lr_scale * (nesterov ? g + momentum * m : m)
/// and without momentum p = p - lr * lr_scale * g. State: m, where momentum > 0. grad_scale is what
/// clipping leaves of a gradient (1: all of it), lr_scale the learning-rate schedule's rate over
/// lr.
struct Sgd {
  float lr = 0.1f;
  float momentum = 0.0f;
  bool nesterov = false;
  float weight_decay = 0.0f;

  /// What Lockstep asks every optimizer: Note [What an optimizer defines] in its sources.
  static constexpr bool kAdaptive = false;
  std::vector<OptimizerHyperParameter> hyper_parameters();
  void validate() const;
  std::vector<std::string_view> state_names() const;
  StepScalars step_scalars(std::uint64_t step) const;
  std::vector<UpdatePhase> phases() const;
};

}  // namespace lockstep
