// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep {

struct OptimizerHyperParameter;
struct StepScalars;
enum class UpdatePhase : std::uint8_t;

/// Adam with decoupled weight decay (Loshchilov and Hutter 2019, "Decoupled Weight Decay
/// Regularization", algorithm 2, as PyTorch writes it). For each element p of the parameters and g
/// of their gradients, t = step + 1:
///   g = g * grad_scale
///   m = beta1 * m + (1 - beta1) * g
///   v = beta2 * v + (1 - beta2) * g^2
///   p = p * (1 - lr * lr_scale * weight_decay)
///   p = p - lr * lr_scale / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
/// State: m and v, zero at the start. grad_scale is what clipping leaves of a gradient (1: all of
/// it), lr_scale the learning-rate schedule's rate over lr.
struct AdamW {
  float lr = 1e-3f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float eps = 1e-8f;
  float weight_decay = 0.01f;

  /// Indices into step_scalars(): 1 - beta1^t and 1 / sqrt(1 - beta2^t) (Kingma and Ba 2015,
  /// algorithm 1).
  static constexpr int kFirstCorrection = 0, kRootCorrection = 1;

  /// What Lockstep asks every optimizer: Note [What an optimizer defines] in its sources.
  static constexpr bool kAdaptive = true;
  std::vector<OptimizerHyperParameter> hyper_parameters();
  void validate() const;
  std::vector<std::string_view> state_names() const;
  StepScalars step_scalars(std::uint64_t step) const;
  std::vector<UpdatePhase> phases() const;
};

}  // namespace lockstep
