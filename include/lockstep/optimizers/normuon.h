// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep {

struct OptimizerHyperParameter;
struct StepScalars;
enum class UpdatePhase : std::uint8_t;

/// NorMuon (Li et al. 2025, "NorMuon: Making Muon more efficient and scalable", algorithm 1): Muon,
/// whose rows get rates of their own by the size of their updates. For each matrix W between hidden
/// layers, a row for each output, and G, its gradient:
///   G = G * grad_scale
///   M = momentum * M + G
///   U = G + momentum * M                                               Nesterov's
///   O = 0.2 * sqrt(max(rows, columns)) * (five Newton-Schulz iterations from U / (|U| + 1e-7))
///   v_i = beta2 * v_i + (1 - beta2) * mean over j of O_ij^2            of each row i
///   N_ij = O_ij / (sqrt(v_i) + eps)
///   W = W * (1 - lr * lr_scale * weight_decay)
///   W = W - lr * lr_scale * 0.2 * sqrt(rows * columns) / (|N| + 1e-7) * N     |x|: Frobenius norm
/// so that elements of an update have a root mean square of 0.2 lr, as Muon's have in this library
/// and AdamW's about. Which matrices, and what happens to all other parameters, is as under Muon
/// (muon.h): these are AdamW's, with beta1, beta2 and eps.
/// Where the paper leaves a choice: its algorithm has an average of gradients for M, without
/// Nesterov's step, and its authors' program has that step, as here (the size of U means nothing).
/// The same program keeps |O| instead of the algorithm's 0.2 sqrt(rows * columns), which is what
/// this one has. Neither corrects v for starting at zero, which |N| cancels out. The factor of O,
/// Muon's, changes nothing but what eps is compared with: elements of about 0.2. One beta2 serves
/// rows and other parameters.
/// State: M, or AdamW's first moment; v_i in each element of row i, or AdamW's second moment; zero
/// at the start. grad_scale is what clipping leaves of a gradient (1: all of it), lr_scale the
/// learning-rate schedule's rate over lr.
struct NorMuon {
  float lr = 1e-3f;
  float momentum = 0.95f;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float eps = 1e-8f;
  float weight_decay = 0.1f;

  /// Indices into step_scalars(): 1 - beta1^t and 1 / sqrt(1 - beta2^t), t = step + 1.
  static constexpr int kFirstCorrection = 0, kRootCorrection = 1;
  /// Added to norms.
  static constexpr double kNormEps = 1e-7;
  /// Root mean square of an update at lr 1.
  static constexpr double kUpdateScale = 0.2;

  /// What Lockstep asks every optimizer: Note [What an optimizer defines] in its sources.
  static constexpr bool kAdaptive = true;
  std::vector<OptimizerHyperParameter> hyper_parameters();
  void validate() const;
  std::vector<std::string_view> state_names() const;
  StepScalars step_scalars(std::uint64_t step) const;
  std::vector<UpdatePhase> phases() const;
};

}  // namespace lockstep
