// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep {

struct OptimizerHyperParameter;
struct StepScalars;
enum class UpdatePhase : std::uint8_t;

/// Muon (Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"), with the
/// decay and the scale of Liu et al. 2025, "Muon is Scalable for LLM Training" (equations 3 and 4).
/// For each matrix W between hidden layers and G, its gradient:
///   G = G * grad_scale
///   M = momentum * M + G
///   U = G + momentum * M                                               Nesterov's
///   O = five Newton-Schulz iterations from U / (|U| + 1e-7)            |x|: Frobenius norm
///   W = W * (1 - lr * lr_scale * weight_decay)
///   W = W - lr * lr_scale * 0.2 * sqrt(max(rows, columns)) * O
/// The scale gives an update the size of AdamW's, so that its learning rate and decay carry over.
/// Matrices are the weights of fully connected layers and of convolutions, stored [out, kernel_h,
/// kernel_w, in / groups] and taken as [out, kernel_h * kernel_w * in / groups]: the order of the
/// columns changes nothing. Queries, keys and values that one layer makes are one matrix. All other
/// parameters are AdamW's, by its formula, with beta1, beta2 and eps: embeddings, the head (the
/// last layers with weights), weights that these share, biases, parameters of norms.
/// State: M, or AdamW's first moment, and AdamW's second moment, unused for matrices; zero at the
/// start. grad_scale is what clipping leaves of a gradient (1: all of it), lr_scale the
/// learning-rate schedule's rate over lr.
struct Muon {
  float lr = 1e-3f;
  float momentum = 0.95f;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float eps = 1e-8f;
  float weight_decay = 0.1f;

  /// Indices into step_scalars(): 1 - beta1^t and 1 / sqrt(1 - beta2^t), t = step + 1.
  static constexpr int kFirstCorrection = 0, kRootCorrection = 1;
  /// Added to the norm.
  static constexpr double kNormEps = 1e-7;

  /// What Lockstep asks every optimizer: Note [What an optimizer defines] in its sources.
  static constexpr bool kAdaptive = true;
  std::vector<OptimizerHyperParameter> hyper_parameters();
  void validate() const;
  std::vector<std::string_view> state_names() const;
  StepScalars step_scalars(std::uint64_t step) const;
  std::vector<UpdatePhase> phases() const;
};

}  // namespace lockstep
