// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <gtest/gtest.h>
#include <numeric>

#include "core/io/weights.h"
#include "lockstep/weights.h"

namespace lockstep::io {
namespace {

/// [rows, columns] as stored, [columns, rows] in files.
Parameter transposed(std::int64_t rows, std::int64_t columns) {
  Parameter parameter;
  parameter.name = "weight";
  parameter.shape = Shape{rows, columns};
  parameter.file_layout = {Shape{rows, columns}, {1, 0}, Shape{columns, rows}};
  return parameter;
}

class FileLayoutPieces : public ::testing::TestWithParam<std::array<std::int64_t, 2>> {};

// What pieces of 65,536 elements are made of lies around their number.
TEST_P(FileLayoutPieces, AreTheTransposedTensor) {
  const auto [rows, columns] = GetParam();
  const Parameter parameter = transposed(rows, columns);
  std::vector<float> stored(std::size_t(rows * columns));
  std::iota(stored.begin(), stored.end(), 1.0f);
  std::vector<float> joined;
  for_file_layout(parameter, stored, [&](std::span<const float> piece) {
    joined.insert(joined.end(), piece.begin(), piece.end());
  });
  ASSERT_EQ(joined.size(), stored.size());
  for (std::int64_t c = 0; c < columns; ++c)
    for (std::int64_t r = 0; r < rows; ++r)
      ASSERT_EQ(joined[std::size_t(c * rows + r)], stored[std::size_t(r * columns + c)])
          << r << ", " << c;
  EXPECT_EQ(joined, to_file_layout(parameter, stored));
}

using Sizes = std::array<std::int64_t, 2>;
INSTANTIATE_TEST_SUITE_P(AroundAPiece,
                         FileLayoutPieces,
                         ::testing::Values(Sizes{1, 1},
                                           Sizes{3, 21845},    // 65,535
                                           Sizes{256, 256},    // 65,536
                                           Sizes{331, 198},    // 65,538
                                           Sizes{512, 256},    // two pieces
                                           Sizes{7, 20000}));  // two and a part

}  // namespace
}  // namespace lockstep::io
