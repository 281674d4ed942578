// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/op_base.h"

/// Batch normalisation (Ioffe and Szegedy 2015, algorithm 1) in four small operators, so that one
/// code path serves every group: statistics of a part of a group, of several groups in one
/// micro-batch, and, with an all_gather in between, of one group over several ranks.
///
///   forward:   moments -> [all_gather] -> normalize
///   backward:  bwd_sums -> [all_gather] -> bwd_data
///
/// x is [N, C] or [N, H, W, C] f32; a group is `group_size` consecutive samples (0: all N), the
/// last one may be short. groups = ceil(N / group_size), at least 1. With several ranks groups = 1
/// and each rank contributes one part. A group with one value per channel is normalised with the
/// running statistics, which then count as constants, and does not change them.
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

/// y = gamma * (x - mean) * rstd + beta with mean, rstd = 1 / sqrt(var + eps) of each group, its
/// parts combined in order (Chan et al. 1979).
/// Inputs: x, gamma: [C], beta: [C], moments: [groups, parts, 3, C], running_mean: [C],
///   running_var: [C], sample_weight: [1] (one over the samples of the global batch).
/// Outputs: y as x; saved: [groups, 2, C] (mean, rstd); and, accumulated over micro-batches,
///   mean_sum: [C], var_sum: [C] (unbiased) and weight_sum: [1], in which a group weighs its
///   samples in this micro-batch times sample_weight.
class BatchNormNormalize final : public OpBase<OpKind::batch_norm_normalize> {
 public:
  BatchNormNormalize(std::int64_t group_size, float eps) : group_size_(group_size), eps_(eps) {}
  std::int64_t group_size() const { return group_size_; }
  float eps() const { return eps_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;
  bool accumulates(int output) const override { return output >= 2; }

 private:
  std::int64_t group_size_;
  float eps_;
};

/// Inputs: x, dy as x, saved: [groups, 2, C].
/// Outputs: sums: [groups, 1, 2, C] (sum of dy, sum of dy * xhat; this rank's part), and,
///   accumulated, dgamma: [C] and dbeta: [C]: the same sums over all groups.
class BatchNormBwdSums final : public OpBase<OpKind::batch_norm_bwd_sums> {
 public:
  explicit BatchNormBwdSums(std::int64_t group_size) : group_size_(group_size) {}
  std::int64_t group_size() const { return group_size_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  bool accumulates(int output) const override { return output >= 1; }

 private:
  std::int64_t group_size_;
};

/// dx = gamma * rstd * (dy - sum(dy) / n - xhat * sum(dy * xhat) / n), n values in the group;
/// dx = gamma * rstd * dy in a group with one value per channel. dx may overwrite dy.
/// Inputs: x, dy, gamma: [C], saved: [groups, 2, C], moments: [groups, parts, 3, C] (for n),
///   sums: [groups, parts, 2, C].  Output: dx as x.
class BatchNormBwdData final : public OpBase<OpKind::batch_norm_bwd_data> {
 public:
  explicit BatchNormBwdData(std::int64_t group_size) : group_size_(group_size) {}
  std::int64_t group_size() const { return group_size_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  int in_place_input(int) const override { return 1; }

 private:
  std::int64_t group_size_;
};

/// Evaluation: y = gamma * (x - running_mean) / sqrt(running_var + eps) + beta. y may overwrite x.
/// Inputs: x, gamma, beta, running_mean, running_var: [C] each.
class BatchNormInference final : public OpBase<OpKind::batch_norm_inference> {
 public:
  explicit BatchNormInference(float eps) : eps_(eps) {}
  float eps() const { return eps_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  int in_place_input(int) const override { return 0; }

 private:
  float eps_;
};

}  // namespace lockstep::ops
