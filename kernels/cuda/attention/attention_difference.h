// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/attention/fused_attention.h"

// Note [Kernels of attention that agree]
//
// A trial runs an own kernel and a library's on the same values, uniform in [-1, 1): scores have a
// standard deviation of 1/3, weights are p_ij = e^(s_ij) / n_i but for a factor that they have in
// common, where query i sees n_i keys. Both kernels multiply bf16 exactly and sum in fp32, and both
// round twice to bf16, by eps at most of what is rounded (eps = 2^-8): weights, or gradients of
// scores, as factors of the second GEMM, and the result.
//
// The elements of a row are sums sum_j p_ij f_j of factors f of random signs, so that they, and
// what they are off by, grow with the weights' norm w = sqrt(sum_j p_ij^2) and the factors' root
// mean square r:
//   - One row: two kernels round twice by eps each, so by 4 eps in all. An element may be eight
//     standard deviations large, which one in 10^15 exceeds, and its largest weights twice n_i^-1
//     (e^(2/3)): 4 * 8 * 2 eps r w = 64 eps r w.
//   - A whole tensor: errors of random signs add like the sums themselves, so that the L2 norm of
//     the difference is sqrt(4) eps of the tensor's at most.
//   - lse stays fp32. A weight moves by what lse is off, which is granted an eighth of what
//     rounding the weight to bf16 costs: eps / 8.
//
// r is that of v, and of dy in dv: 1 / sqrt(3). Of dq and dk, f = (dy_i . v_j - dy_i . y_i) k_j /
// sqrt(D): both products have variance D / 9, so r = sqrt(2 / 9 / 3).
//
// In dq some do not cancel, however many keys there are: dy_i . y_i is the same for all of them,
// and weights grow with k_j . q_i, so that sum_j p_ij k_j is q_i / (3 sqrt(D)) on average. Of eight
// standard deviations of dy_i . y_i, sqrt(D) / 3 each, that leaves 8 / (9 sqrt(D)) in an element.
// Roundings of its factors have random signs; two kernels round the result: 2 eps 8 / (9 sqrt(D)).
namespace lockstep::cuda {

/// Compares what an own kernel and another stored for the values of a trial, a few rows at a time.
class AttentionDifference {
 public:
  explicit AttentionDifference(const FusedAttentionSpec& spec);

  /// Rows of y or of dqkv, as bf16: [samples, tokens] rows of heads * depth elements, or [samples,
  /// tokens, 3]. `first` is the number of the first of them.
  void add(std::int64_t first,
           std::span<const std::uint16_t> own,
           std::span<const std::uint16_t> other);
  /// Of lse.
  void add_lse(std::span<const float> own, std::span<const float> other);

  /// Where they differ by more than roundings; empty: they agree.
  std::string why_not() const;

 private:
  struct Part {
    double difference = 0, size = 0;  // sums of squares
  };

  FusedAttentionSpec spec_;
  std::vector<double> query_norms_, key_norms_;  // w of every token
  std::array<Part, 3> parts_;                    // y; or dq, dk, dv
  std::string first_;                            // that is granted no more
};

}  // namespace lockstep::cuda
