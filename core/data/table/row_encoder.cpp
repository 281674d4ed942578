// SPDX-License-Identifier: Apache-2.0
#include "core/data/table/row_encoder.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "core/base/parameter_names.h"

namespace lockstep::data {
namespace {

/// Where a value stands, for messages.
struct Cell {
  const std::string& file;
  std::int64_t line;
  std::size_t field;
};

/// `value` in deviations from the mean of `column`, a ColumnRecord or TargetRecord.
template <typename Record>
float in_deviations(double value, const Record& column, const Cell& cell) {
  const double result = (value - column.mean) / column.deviation;
  if (std::abs(result) <= double(std::numeric_limits<float>::max())) return float(result);
  throw RowError(fmt::format("{}:{}:{}", cell.file, cell.line, cell.field + 1),
                 cell.line,
                 fmt::format("expected a number that standardised features can hold, got {} "
                             "(column '{}', of mean {} and deviation {} in the training part)",
                             value,
                             as_written(column.name),
                             column.mean,
                             column.deviation),
                 "scale the column or remove the outlier");
}

}  // namespace

void RowEncoder::standardise(const double* values, std::int64_t line, float* result) const {
  for (std::size_t f = 0; f < record_.columns.size(); ++f) {
    const ColumnRecord& column = record_.columns[f];
    if (column.kind == ColumnRecord::Kind::categorical) {
      result[f] = float(values[f]);
      continue;
    }
    const double value = std::isnan(values[f]) ? *column.fill : values[f];
    result[f] = in_deviations(value, column, {name_, line, roles_.features[f]});
  }
}

void RowEncoder::standardise_targets(const double* values, std::int64_t line, float* result) const {
  for (std::size_t l = 0; l < record_.targets.size(); ++l)
    result[l] = in_deviations(values[l], record_.targets[l], {name_, line, roles_.labels[l]});
}

void expand_categories(const TableRecord& record, const float* row, float* features) {
  for (std::size_t f = 0; f < record.columns.size(); ++f) {
    const ColumnRecord& column = record.columns[f];
    const std::int64_t count = column.features();
    if (column.kind == ColumnRecord::Kind::numeric || column.embedded) {
      *features = row[f];
    } else {
      std::fill_n(features, count, 0.0f);
      features[std::int64_t(row[f])] = 1.0f;
    }
    features += count;
  }
}

}  // namespace lockstep::data
