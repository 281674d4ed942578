// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep {

struct OptimizerHyperParameter;
struct StepScalars;
enum class UpdatePhase : std::uint8_t;

/// Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2). For each
/// element p of the parameters and g of their gradients:
///   g = g * grad_scale
///   u = sign(beta1 * m + (1 - beta1) * g)
///   m = beta2 * m + (1 - beta2) * g
///   p = p * (1 - lr * lr_scale * weight_decay) - lr * lr_scale * u
/// where sign(0) is 0. State: m, zero at the start. An update has the size of lr whatever the
/// gradients', so that the paper advises a learning rate 3 to 10 times below AdamW's, and a weight
/// decay as much above. grad_scale is what clipping leaves of a gradient (1: all of it), lr_scale
/// the learning-rate schedule's rate over lr.
struct Lion {
  float lr = 1e-4f;
  float beta1 = 0.9f;
  float beta2 = 0.99f;
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
