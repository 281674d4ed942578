// SPDX-License-Identifier: Apache-2.0
#include "core/ops/embedding/column_embedding.h"

#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>

#include "core/base/check.h"
#include "core/nn/builder.h"
#include "lockstep/data/dataset.h"

namespace lockstep {

std::int64_t embedding_width(std::int64_t categories) {
  constexpr double kFactor = 1.6, kExponent = 0.56, kMaxWidth = 600;
  const double width = std::round(kFactor * std::pow(double(categories), kExponent));
  return std::int64_t(std::clamp(width, 1.0, kMaxWidth));
}

Value Builder::column_embedding(Value x, const ColumnEmbeddingOptions& o, SourceLoc where) {
  const std::vector<data::EmbeddedColumn>& columns = settings_->embedded;
  if (columns.empty()) return x;
  // What a layer has made of the features is not an index; and bf16 would round it.
  LOCKSTEP_CHECK(graph_.value(x.id()).role == ValueRole::input,
                 ConfigError,
                 "column_embedding: expected the model's input, got {} of a layer (asked for at "
                 "{}:{}); it comes first in a model",
                 x.type().to_string(),
                 where.file,
                 where.line);
  LOCKSTEP_CHECK(
      o.widths.empty() ||
          (o.widths.size() == columns.size() && *std::ranges::min_element(o.widths) >= 1),
      ConfigError,
      "column_embedding: expected {} widths of at least 1, one for each embedded column, "
      "got {} (asked for at {}:{})",
      columns.size(),
      fmt::join(o.widths, ", "),
      where.file,
      where.line);
  const Init init{Init::Kind::normal, o.init_deviation};
  std::vector<ValueId> inputs{x.id()};
  std::vector<std::int64_t> features;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::int64_t categories = columns[i].categories;
    const Shape table{categories, o.widths.empty() ? embedding_width(categories) : o.widths[i]};
    const std::string name = fmt::format("{}{}.{}.weight", prefix_, o.name, i);
    inputs.push_back(weight(name, table, init, {table, {}, table}).id());
    features.push_back(columns[i].feature);
  }
  return apply(std::make_shared<ops::ColumnEmbedding>(std::move(features)),
               inputs,
               layer_path(o.name, "column_embedding"),
               where);
}

}  // namespace lockstep
