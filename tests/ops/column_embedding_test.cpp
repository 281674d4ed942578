// SPDX-License-Identifier: Apache-2.0
#include "core/ops/embedding/column_embedding.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/op_case.h"
#include "tests/reference/column_embedding.h"

namespace lockstep::test {
namespace {

struct Column {
  std::int64_t feature, categories, width;
};
struct Table {
  std::int64_t samples, features;
  std::vector<Column> columns;
};

/// More columns than one launch of the CUDA kernel knows, each second feature.
Table many_columns() {
  Table table{3, 261, {}};
  for (std::int64_t i = 0; i < 130; ++i) table.columns.push_back({2 * i, 5 + i % 7, 1 + i % 3});
  return table;
}

// Empty and single ones; columns at both ends, side by side and alone; vector tails; indices that
// bf16 does not hold; one category that every sample has, and more samples than a block has
// threads.
const std::vector<Table> kTables = {{0, 3, {{1, 4, 2}}},
                                    {1, 1, {{0, 1, 1}}},
                                    {5, 4, {{0, 3, 7}, {3, 2, 1}}},
                                    {7, 19, {{3, 40, 13}, {4, 33, 11}, {9, 100, 21}}},
                                    {40, 2, {{1, 1000, 77}}},
                                    {300, 34, {{33, 1, 16}}},
                                    {1100, 3, {{1, 7, 33}}},
                                    many_columns()};

std::string name_of_table(const Table& t) {
  return fmt::format("{}x{}, {} embedded", t.samples, t.features, t.columns.size());
}

/// Numbers, and in embedded columns drawn categories with the first and the last among them.
HostTensor samples_of(const Table& t) {
  HostTensor x = random_f32({t.samples, t.features}, 1);
  for (const Column& column : t.columns) {
    const HostTensor drawn = random_i32(
        {t.samples}, 2 + std::uint64_t(column.feature), std::uint32_t(column.categories));
    for (std::int64_t n = 0; n < t.samples; ++n) {
      std::int32_t category = drawn.as<std::int32_t>()[n];
      if (n == 0) category = std::int32_t(column.categories - 1);
      if (n == 1) category = 0;
      x.as<float>()[n * t.features + column.feature] = float(category);
    }
  }
  return x;
}

OpCase forward_case(const Table& t) {
  OpCase c{name_of_table(t), nullptr, {samples_of(t)}, {{.c = 0}}, {}};  // copies are exact
  std::vector<std::int64_t> features;
  for (const Column& column : t.columns) {
    features.push_back(column.feature);
    c.parameters.push_back(int(c.inputs.size()));
    c.inputs.push_back(random_f32({column.categories, column.width}, 300 + c.inputs.size()));
  }
  c.op = std::make_shared<ops::ColumnEmbedding>(features);
  return c;
}

/// What no table has: each has to become NaN, and nothing outside the table is to be read.
HostTensor with_wrong_indices(HostTensor x, const Table& t) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float wrong[] = {-1, -0x1p-149f, 1e30f, -1e30f, kInfinity, -kInfinity, std::nanf(""), 2.5f};
  for (const Column& column : t.columns)
    for (std::int64_t n = 0; n < t.samples; ++n)
      if (n % 2 == 0)
        x.as<float>()[n * t.features + column.feature] =
            n == 0 ? float(column.categories) : wrong[std::size_t(n / 2) % std::size(wrong)];
  return x;
}

const Table kWrongIndices{33, 5, {{0, 6, 9}, {2, 3, 2}}};

std::vector<OpCase> column_embedding_cases() {
  std::vector<OpCase> cases;
  for (const Table& t : kTables) cases.push_back(forward_case(t));
  cases.push_back(forward_case(kWrongIndices));
  cases.back().name += ", indices that are none";
  cases.back().inputs[0] = with_wrong_indices(cases.back().inputs[0], kWrongIndices);
  return cases;
}

OpCase backward_case(const Table& t, const Column& column, const HostTensor& x) {
  std::int64_t offset = column.feature, values = t.features;
  for (const Column& other : t.columns) {
    values += other.width - 1;
    if (other.feature < column.feature) offset += other.width - 1;
  }
  // A sum of as many values in [-1, 1) as a category occurs: a few times the even share.
  const double n = 8 + 4 * double(t.samples) / double(column.categories);
  return {fmt::format("{}, feature {}", name_of_table(t), column.feature),
          std::make_shared<ops::ColumnEmbeddingBwd>(
              column.feature, offset, Shape{column.categories, column.width}),
          {x, random_f32({t.samples, values}, 4)},
          {{.c = 4, .n = n, .scale = std::sqrt(n)}}};
}

std::vector<OpCase> column_embedding_bwd_cases() {
  std::vector<OpCase> cases;
  for (const Table& t : kTables) {
    const HostTensor x = samples_of(t);
    cases.push_back(backward_case(t, t.columns.front(), x));
    if (t.columns.size() > 1) cases.push_back(backward_case(t, t.columns.back(), x));
  }
  const Table& wrong = kWrongIndices;
  cases.push_back(
      backward_case(wrong, wrong.columns[1], with_wrong_indices(samples_of(wrong), wrong)));
  return cases;
}

LOCKSTEP_OP_TEST(ColumnEmbedding,
                 column_embedding,
                 column_embedding_reference,
                 column_embedding_cases)
LOCKSTEP_OP_TEST(ColumnEmbeddingBwd,
                 column_embedding_bwd,
                 column_embedding_bwd_reference,
                 column_embedding_bwd_cases)

TEST(ColumnEmbeddingGradient, FiniteDifferences) {
  const Table t{6, 5, {{0, 3, 2}, {3, 4, 3}}};
  const OpCase forward = forward_case(t);
  for (std::size_t i = 0; i < t.columns.size(); ++i) {
    const OpCase backward = backward_case(t, t.columns[i], forward.inputs[0]);
    const auto analytic = column_embedding_bwd_reference(reference_args(backward));
    check_gradient(fmt::format("table {}", i),
                   column_embedding_reference,
                   reference_args(forward),
                   0,
                   backward.inputs[1].to_double(),
                   int(i + 1),
                   analytic[0]);
  }
}

// A thousand categories in bf16: each has its own row, though bf16 rounds indices above 256.
TEST(ColumnEmbedding, EachOfAThousandCategoriesHasItsRowInBf16) {
  constexpr std::int64_t kCategories = 1000;
  std::vector<float> indices(kCategories), rows;
  std::iota(indices.begin(), indices.end(), 0.0f);
  for (std::int64_t k = 0; k < kCategories; ++k) {
    rows.push_back(float(k / 100));
    rows.push_back(float(k % 100));
  }
  const OpCase every{
      "every category",
      std::make_shared<ops::ColumnEmbedding>(std::vector<std::int64_t>{0}, DType::bf16),
      {f32_tensor({kCategories, 1}, indices), f32_tensor({kCategories, 2}, rows)}};
  const auto y = run_kernel(every, [](const KernelSpec& spec) {
    return cpu::make_column_embedding_kernel(op_cast<ops::ColumnEmbedding>(spec.op), spec);
  });
  EXPECT_EQ(y[0].to_double(), std::vector<double>(rows.begin(), rows.end()));
}

TEST(ColumnEmbedding, RefusesWhatIsNoTable) {
  const auto infer = [](std::vector<std::int64_t> features, std::vector<TensorType> inputs) {
    ops::ColumnEmbedding(std::move(features)).infer(inputs);
  };
  const TensorType x{{4, 3}, DType::f32}, table{{5, 2}, DType::f32};
  EXPECT_NO_THROW(infer({0, 2}, {x, table, table}));
  EXPECT_THROW(infer({0}, {x}), ShapeError);
  EXPECT_THROW(infer({2, 0}, {x, table, table}), ShapeError);
  EXPECT_THROW(infer({0, 0}, {x, table, table}), ShapeError);
  EXPECT_THROW(infer({3}, {x, table}), ShapeError);
  EXPECT_THROW(infer({0}, {{{4, 3}, DType::bf16}, table}), ShapeError);
  EXPECT_THROW(infer({0}, {x, {{0, 2}, DType::f32}}), ShapeError);
}

TEST(ColumnEmbedding, CostsTheRowsThatAreRead) {
  const std::vector<TensorType> inputs{{{8, 3}, DType::f32}, {{1000, 5}, DType::f32}};
  const ops::ColumnEmbedding forward({1}, DType::bf16);
  const Cost cost = forward.cost(inputs, forward.infer(inputs));
  EXPECT_EQ(cost.flops, 0);
  EXPECT_EQ(cost.bytes, 8 * 3 * 4 + 8 * 5 * 4 + 8 * 7 * 2);
  const ops::ColumnEmbeddingBwd backward(1, 1, {1000, 5});
  const std::vector<TensorType> of_bwd{inputs[0], {{8, 7}, DType::bf16}};
  const Cost added = backward.cost(of_bwd, backward.infer(of_bwd));
  EXPECT_EQ(added.flops, 8 * 5);
  EXPECT_EQ(added.bytes, 8 * 4 + 8 * 5 * 2 + 1000 * 5 * 4);
}

}  // namespace
}  // namespace lockstep::test
