// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/ops/op_base.h"

namespace lockstep::ops {

/// Neighbouring values in each row of ColumnEmbedding's output: features that are copied, or the
/// vector of one embedded feature.
struct ColumnRun {
  std::int64_t feature = 0;  ///< the first in x
  std::int64_t offset = 0;   ///< the first in y
  std::int64_t width = 0;    ///< values in y
  int table = -1;            ///< which table the vector comes from; -1: copied
};

/// Replaces features that hold the index of a category by vectors that are learned. A row of y is a
/// row of x from left to right, in which W_i[x[n, f], :] replaces feature f =
/// features()[i]; the other features keep their order and are cast to the type of y:
///   x = [a, i, b], one embedded feature 1, W_0: [K, 2]  ->  y = [a, W_0[i, 0], W_0[i, 1], b]
/// Shapes: x: [N, F] f32 (bf16 does not hold indices above 256), one W_i: [K_i, D_i] f32 for each
///   of the E features -> y: [N, F - E + sum of D_i], f32 or bf16 as `output` says.
/// An index is cut to a whole number. Tables are checked where they are read; an x[n, f] outside
/// [0, K_i) or NaN reads no table, and its vector is NaN, so that the loss says that it was there.
class ColumnEmbedding final : public OpBase<OpKind::column_embedding> {
 public:
  /// `features`: at least one, ascending.
  explicit ColumnEmbedding(std::vector<std::int64_t> features, DType output = DType::f32)
      : features_(std::move(features)), output_(output) {}
  const std::vector<std::int64_t>& features() const { return features_; }
  DType output() const { return output_; }

  /// What a row of y is made of, from left to right. `inputs`: x and the tables.
  std::vector<ColumnRun> runs(std::span<const TensorType> inputs) const;

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
  /// The indices have no gradient.
  std::vector<ValueId> gradient(GradientBuilder& builder,
                                const Node& node,
                                std::span<const ValueId> output_grads) const override;

 private:
  std::vector<std::int64_t> features_;
  DType output_;
};

/// The gradient of one table: dW[k, :] = sum of dy[n, offset : offset + D] over n with
/// x[n, feature] = k, in the order of n; zero for categories that do not occur. A sample whose
/// index is outside [0, K) or NaN adds nothing. Shapes: x: [N, F] f32, dy: [N, M] f32 or bf16 ->
/// dW: [K, D] f32.
class ColumnEmbeddingBwd final : public OpBase<OpKind::column_embedding_bwd> {
 public:
  ColumnEmbeddingBwd(std::int64_t feature, std::int64_t offset, const Shape& table)
      : feature_(feature), offset_(offset), table_(table) {}
  std::int64_t feature() const { return feature_; }
  std::int64_t offset() const { return offset_; }

  std::string attributes() const override;
  std::vector<TensorType> infer(std::span<const TensorType> inputs) const override;
  Cost cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override;
  bool accumulates(int) const override { return true; }

 private:
  std::int64_t feature_, offset_;
  Shape table_;
};

}  // namespace lockstep::ops
