// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/activations/activation.h"
#include "core/ops/op_base.h"

/// Batch normalisation (Ioffe and Szegedy 2015, algorithm 1) in small operators, so that one
/// code path serves every group: statistics of a part of a group, of several groups in one
/// micro-batch, and, with an all_gather in between, of one group over several ranks.
///
///   forward:   moments -> [all_gather] -> normalize
///   backward:  bwd_sums -> [all_gather] -> bwd_data
///
/// Where a residual and ReLU are fused into forward, residual_bwd_sums replaces bwd_sums.
///
/// x is [N, C] or [N, H, W, C] f32 or bf16 (statistics are fp32); a group is `group_size`
/// consecutive samples (0: all N), the last one may be short. groups = ceil(N / group_size), at
/// least 1. With several ranks groups = 1 and each rank contributes one part. A group with one
/// value per channel is normalised with the running statistics, which then count as constants, and
/// does not change them.
namespace lockstep::ops {

/// Groups in a micro-batch of `n` samples.
std::int64_t batch_norm_groups(std::int64_t n, std::int64_t group_size);

/// x -> moments: [groups, 1, 3, C] f32, the rows being the number of values (the same for all
/// channels), their mean, and the sum of squared deviations from it. All zero where N is 0.
class BatchNormMoments final : public OpBase<OpKind::batch_norm_moments> {
 public:
  explicit BatchNormMoments(std::int64_t group_size) : group_size_(group_size) {}
  std::int64_t group_size() const { return group_size_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;

 private:
  std::int64_t group_size_;
};

/// y = f(gamma * (x - mean) * rstd + beta + r) with mean, rstd = 1 / sqrt(var + eps) of each group,
/// its parts combined in order (Chan et al. 1979), f the identity or ReLU, perhaps with an upper
/// limit where there is no residual (Relu), r a residual or 0. Inputs: x, gamma: [C], beta: [C],
/// moments: [groups, parts, 3, C], running_mean: [C],
///   running_var: [C], sample_weight: [1] (one over the samples of the global batch), r as x (only
///   with residual).
/// Outputs: y as x; saved: [groups, 2, C] (mean, rstd), with ReLU and no residual [groups, 4, C]:
///   then also the scale and shift with which y = f(x scale + shift), one rounding, so that
///   backward finds the same mask from x; and, accumulated over micro-batches,
///   mean_sum: [C], var_sum: [C] (unbiased) and weight_sum: [1], in which a group weighs its
///   samples in this micro-batch times sample_weight.
class BatchNormNormalize final : public OpBase<OpKind::batch_norm_normalize> {
 public:
  BatchNormNormalize(std::int64_t group_size,
                     float eps,
                     bool relu = false,
                     bool residual = false,
                     float limit = kNoLimit)
      : group_size_(group_size), eps_(eps), relu_(relu), residual_(residual), limit_(limit) {}
  std::int64_t group_size() const { return group_size_; }
  float eps() const { return eps_; }
  bool relu() const { return relu_; }
  bool residual() const { return residual_; }
  float limit() const { return limit_; }
  /// Backward finds ReLU's mask from x, scale and shift.
  bool saves_affine() const { return relu_ && !residual_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;
  bool accumulates(int output) const override { return output >= 2; }

 private:
  std::int64_t group_size_;
  float eps_;
  bool relu_, residual_;
  float limit_;
};

/// With ReLU, dy counts only where 0 < x scale + shift < limit.
/// Inputs: x, dy as x, saved: [groups, 2, C], with ReLU [groups, 4, C].
/// Outputs: sums: [groups, 1, 2, C] (sum of dy, sum of dy * xhat; this rank's part), and,
///   accumulated, dgamma: [C] and dbeta: [C]: the same sums over all groups.
class BatchNormBwdSums final : public OpBase<OpKind::batch_norm_bwd_sums> {
 public:
  explicit BatchNormBwdSums(std::int64_t group_size, bool relu = false, float limit = kNoLimit)
      : group_size_(group_size), relu_(relu), limit_(limit) {}
  std::int64_t group_size() const { return group_size_; }
  bool relu() const { return relu_; }
  float limit() const { return limit_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  bool accumulates(int output) const override { return output >= 1; }

 private:
  std::int64_t group_size_;
  bool relu_;
  float limit_;
};

/// The sums after a residual and ReLU, and the gradient before these, which is the residual's too:
/// dz = y > 0 ? dy : 0. Where `two_uses`, y was read twice and dy is the sum of two gradients,
/// rounded to their type as Add rounds it, so that the bits are those of the operators apart. dz
/// may overwrite dy.
/// Inputs: x, dy as x, saved: [groups, 2, C], y as x (what forward returned), with two uses also
///   the second summand of dy, as x.
/// Outputs: sums: [groups, 1, 2, C], dgamma: [C] and dbeta: [C] of dz, as BatchNormBwdSums has
///   them, and dz as x.
class BatchNormResidualBwdSums final : public OpBase<OpKind::batch_norm_residual_bwd_sums> {
 public:
  explicit BatchNormResidualBwdSums(std::int64_t group_size, bool two_uses = false)
      : group_size_(group_size), two_uses_(two_uses) {}
  std::int64_t group_size() const { return group_size_; }
  bool two_uses() const { return two_uses_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  int in_place_input(int output) const override { return output == 3 ? 1 : -1; }
  bool accumulates(int output) const override { return output == 1 || output == 2; }

 private:
  std::int64_t group_size_;
  bool two_uses_;
};

/// dx = gamma * rstd * (dy - sum(dy) / n - xhat * sum(dy * xhat) / n), n values in the group;
/// dx = gamma * rstd * dy in a group with one value per channel. With ReLU, dy is 0 where
/// not 0 < x scale + shift < limit. dx may overwrite dy.
/// Inputs: x, dy, gamma: [C], saved: [groups, 2, C], with ReLU [groups, 4, C], moments: [groups,
/// parts, 3, C] (for n),
///   sums: [groups, parts, 2, C].  Output: dx as x.
class BatchNormBwdData final : public OpBase<OpKind::batch_norm_bwd_data> {
 public:
  explicit BatchNormBwdData(std::int64_t group_size, bool relu = false, float limit = kNoLimit)
      : group_size_(group_size), relu_(relu), limit_(limit) {}
  std::int64_t group_size() const { return group_size_; }
  bool relu() const { return relu_; }
  float limit() const { return limit_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  int in_place_input(int) const override { return 1; }

 private:
  std::int64_t group_size_;
  bool relu_;
  float limit_;
};

/// Evaluation: y = f(gamma * (x - running_mean) / sqrt(running_var + eps) + beta + r), f and r as
/// in training. y may overwrite x. Inputs: x, gamma, beta, running_mean, running_var: [C] each, r
/// as x (only with residual).
class BatchNormInference final : public OpBase<OpKind::batch_norm_inference> {
 public:
  explicit BatchNormInference(float eps,
                              bool relu = false,
                              bool residual = false,
                              float limit = kNoLimit)
      : eps_(eps), relu_(relu), residual_(residual), limit_(limit) {}
  float eps() const { return eps_; }
  bool relu() const { return relu_; }
  bool residual() const { return residual_; }
  float limit() const { return limit_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  int in_place_input(int) const override { return 0; }

 private:
  float eps_;
  bool relu_, residual_;
  float limit_;
};

}  // namespace lockstep::ops
