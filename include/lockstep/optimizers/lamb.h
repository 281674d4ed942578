// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep {

struct OptimizerHyperParameter;
struct StepScalars;
enum class UpdatePhase : std::uint8_t;

/// LAMB, Adam with a learning rate for each layer (You et al. 2020, "Large Batch Optimization for
/// Deep Learning: Training BERT in 76 minutes", algorithm 2, its phi the identity). For each
/// element w of a tensor and g of its gradient, t = step + 1, |x| the Euclidean norm of the whole
/// tensor:
///   g = g * grad_scale
///   m = beta1 * m + (1 - beta1) * g
///   v = beta2 * v + (1 - beta2) * g^2
///   u = m / (1 - beta1^t) / (sqrt(v) / sqrt(1 - beta2^t) + eps) + weight_decay * w
///   w = w - lr * lr_scale * |w| / |u| * u
/// The trust ratio |w| / |u| is 1 where |w| or |u| is 0, and for biases and the parameters of
/// norms, as in MLPerf's reference; these do not decay either, unless asked to. State: m and v,
/// zero at the start. grad_scale is what clipping leaves of a gradient (1: all of it), lr_scale the
/// learning-rate schedule's rate over lr.
struct Lamb {
  float lr = 1e-3f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float eps = 1e-6f;
  float weight_decay = 0.01f;

  /// Indices into step_scalars(): 1 / (1 - beta1^t) and 1 / sqrt(1 - beta2^t).
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
