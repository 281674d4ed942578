// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/column_embedding.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ops/embedding/column_embedding.h"

namespace lockstep::test {
namespace {

bool is_category(double index, std::size_t categories) {
  return index >= 0 && index < double(categories);
}

}  // namespace

ReferenceOutputs column_embedding_reference(const ReferenceArgs& args) {
  const std::vector<std::int64_t>& embedded = op_cast<ops::ColumnEmbedding>(args.op).features();
  const auto samples = std::size_t(args.input_types[0].shape[0]);
  const auto features = std::size_t(args.input_types[0].shape[1]);
  std::vector<double> y;
  for (std::size_t n = 0; n < samples; ++n)
    for (std::size_t f = 0; f < features; ++f) {
      const double x = args.inputs[0][n * features + f];
      const auto found = std::ranges::find(embedded, std::int64_t(f));
      if (found == embedded.end()) {
        y.push_back(x);
        continue;
      }
      const auto table = std::size_t(found - embedded.begin()) + 1;
      const auto categories = std::size_t(args.input_types[table].shape[0]);
      const auto width = std::size_t(args.input_types[table].shape[1]);
      for (std::size_t d = 0; d < width; ++d)
        y.push_back(is_category(x, categories)
                        ? args.inputs[table][std::size_t(std::floor(x)) * width + d]
                        : std::numeric_limits<double>::quiet_NaN());
    }
  return {y};
}

ReferenceOutputs column_embedding_bwd_reference(const ReferenceArgs& args) {
  const auto& op = op_cast<ops::ColumnEmbeddingBwd>(args.op);
  const auto samples = std::size_t(args.input_types[0].shape[0]);
  const auto features = std::size_t(args.input_types[0].shape[1]);
  const auto values = std::size_t(args.input_types[1].shape[1]);
  const auto categories = std::size_t(args.output_types[0].shape[0]);
  const auto width = std::size_t(args.output_types[0].shape[1]);
  std::vector<double> dw(categories * width);
  for (std::size_t n = 0; n < samples; ++n) {
    const double x = args.inputs[0][n * features + std::size_t(op.feature())];
    if (!is_category(x, categories)) continue;
    for (std::size_t d = 0; d < width; ++d)
      dw[std::size_t(std::floor(x)) * width + d] +=
          args.inputs[1][n * values + std::size_t(op.offset()) + d];
  }
  return {dw};
}

}  // namespace lockstep::test
