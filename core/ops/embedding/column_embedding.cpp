// SPDX-License-Identifier: Apache-2.0
#include "core/ops/embedding/column_embedding.h"

#include <fmt/ranges.h>

#include "core/graph/gradient_builder.h"

namespace lockstep::ops {

std::vector<ColumnRun> ColumnEmbedding::runs(std::span<const TensorType> inputs) const {
  std::vector<ColumnRun> result;
  std::int64_t feature = 0, offset = 0;
  const auto copy_up_to = [&](std::int64_t end) {
    if (end > feature) result.push_back({feature, offset, end - feature});
    offset += end - feature;
  };
  for (std::size_t i = 0; i < features_.size(); ++i) {
    copy_up_to(features_[i]);
    const std::int64_t width = inputs[1 + i].shape[1];
    result.push_back({features_[i], offset, width, int(i)});
    offset += width;
    feature = features_[i] + 1;
  }
  copy_up_to(inputs[0].shape[1]);
  return result;
}

std::string ColumnEmbedding::attributes() const {
  return fmt::format(
      "features={}{}", fmt::join(features_, ","), output_ == DType::f32 ? "" : " bf16");
}

std::vector<TensorType> ColumnEmbedding::infer(std::span<const TensorType> inputs) const {
  LOCKSTEP_ASSERT(!features_.empty());
  expect_inputs("column_embedding", inputs, 1 + features_.size());
  expect_tensor("column_embedding", "x", inputs[0], 2);
  std::int64_t next = 0;
  for (std::size_t i = 0; i < features_.size(); ++i) {
    LOCKSTEP_CHECK(features_[i] >= next && features_[i] < inputs[0].shape[1],
                   ShapeError,
                   "column_embedding: embedded features must be ascending and below the {} of x, "
                   "got {}",
                   inputs[0].shape[1],
                   fmt::join(features_, ", "));
    next = features_[i] + 1;
    const std::string table = fmt::format("table {}", i);
    expect_tensor("column_embedding", table, inputs[1 + i], 2);
    LOCKSTEP_CHECK(inputs[1 + i].elems() > 0,
                   ShapeError,
                   "column_embedding: {} must have a row and a column at least, got {}",
                   table,
                   inputs[1 + i].to_string());
  }
  const ColumnRun last = runs(inputs).back();
  return {{{inputs[0].shape[0], last.offset + last.width}, output_}};
}

Cost ColumnEmbedding::cost(std::span<const TensorType> inputs,
                           std::span<const TensorType> outputs) const {
  // Of the tables, the rows that samples name.
  double read = 0;
  for (std::size_t i = 0; i < features_.size(); ++i)
    read += double(inputs[0].shape[0]) * double(inputs[1 + i].shape[1]) * sizeof(float);
  return {0, double(inputs[0].bytes()) + read + double(outputs[0].bytes())};
}

std::vector<ValueId> ColumnEmbedding::gradient(GradientBuilder& builder,
                                               const Node& node,
                                               std::span<const ValueId> output_grads) const {
  std::vector<ValueId> grads(node.inputs.size(), kNoValue);
  std::vector<TensorType> types;
  for (const ValueId input : node.inputs) types.push_back(builder.type(input));
  for (const ColumnRun& run : runs(types)) {
    if (run.table < 0) continue;
    const auto input = std::size_t(1 + run.table);
    if (builder.needs_grad(node.inputs[input]))
      grads[input] = builder.emit(
          node,
          std::make_shared<ColumnEmbeddingBwd>(run.feature, run.offset, types[input].shape),
          {node.inputs[0], output_grads[0]})[0];
  }
  return grads;
}

std::string ColumnEmbeddingBwd::attributes() const {
  return fmt::format("feature={} offset={} table={}", feature_, offset_, table_.to_string());
}

std::vector<TensorType> ColumnEmbeddingBwd::infer(std::span<const TensorType> inputs) const {
  expect_inputs("column_embedding_bwd", inputs, 2);
  expect_tensor("column_embedding_bwd", "x", inputs[0], 2);
  expect_activation("column_embedding_bwd", "dy", inputs[1], 2);
  LOCKSTEP_CHECK(
      inputs[0].shape[0] == inputs[1].shape[0] && feature_ < inputs[0].shape[1] &&
          offset_ + table_[1] <= inputs[1].shape[1],
      ShapeError,
      "column_embedding_bwd: feature {} and values from {} on, of a table {}, are not in "
      "{} and {} of as many samples",
      feature_,
      offset_,
      table_.to_string(),
      inputs[0].to_string(),
      inputs[1].to_string());
  return {{table_, DType::f32}};
}

Cost ColumnEmbeddingBwd::cost(std::span<const TensorType> inputs,
                              std::span<const TensorType> outputs) const {
  // An index and D values of dy a sample, which are added; the whole table is written.
  const double samples = double(inputs[0].shape[0]), added = samples * double(table_[1]);
  return {added,
          samples * sizeof(float) + added * double(size_in_bytes(inputs[1].dtype)) +
              double(outputs[0].bytes())};
}

}  // namespace lockstep::ops
