// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep {

struct OptimizerHyperParameter;
struct StepScalars;
enum class UpdatePhase : std::uint8_t;

/// LARS, stochastic gradient descent with a learning rate for each layer (You, Gitman and Ginsburg
/// 2017, "Large Batch Training of Convolutional Networks", algorithm 1 and equation 6). For each
/// tensor w with the gradient g, |x| the Euclidean norm of the whole tensor:
///   g = g * grad_scale
///   rate = lr * lr_scale * trust_coefficient * |w| / (|g| + weight_decay * |w|)
///   m = momentum * m + rate * (g + weight_decay * w)
///   w = w - m
/// As in MLPerf's reference, biases and the parameters of norms are not scaled, and so are tensors
/// with |w| or |g| 0: their rate is lr * lr_scale. Biases and norms do not decay either, unless
/// asked to. There is no epsilon, and no clip as in LARC. The rate is a part of the momentum, as in
/// the paper, unlike Sgd's. State: m, zero at the start. grad_scale is what clipping leaves of a
/// gradient (1: all of it), lr_scale the learning-rate schedule's rate over lr.
struct Lars {
  float lr = 1.0f;
  float momentum = 0.9f;
  float trust_coefficient = 0.001f;
  float weight_decay = 5e-4f;

  /// What Lockstep asks every optimizer: Note [What an optimizer defines] in its sources.
  static constexpr bool kAdaptive = true;
  std::vector<OptimizerHyperParameter> hyper_parameters();
  void validate() const;
  std::vector<std::string_view> state_names() const;
  StepScalars step_scalars(std::uint64_t step) const;
  std::vector<UpdatePhase> phases() const;
};

}  // namespace lockstep
