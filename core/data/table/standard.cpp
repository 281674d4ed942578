// SPDX-License-Identifier: Apache-2.0
#include "core/data/table/standard.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "core/base/parameter_names.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

Standard standard_of(const std::vector<double>& values) {
  StandardFit fit(std::int64_t(values.size()));
  for (const double value : values) fit.add_to_mean(value);
  for (const double value : values) fit.add_distance(value);
  for (const double value : values) fit.add_share(value);
  return fit.standard();
}

/// Of values that are there.
double middle_of(std::vector<double> values, Missing missing) {
  if (missing == Missing::mean) return standard_of(values).mean;
  const auto half = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  if (values.size() % 2 == 1) return *half;
  const double below = *std::max_element(values.begin(), half);
  return below / 2 + *half / 2;
}

}  // namespace

void StandardFit::add_to_mean(double value) {
  // Dividing before adding keeps columns near the largest double finite.
  mean_ += value / count_;
}

void StandardFit::add_distance(double value) {
  largest_ = std::max(largest_, std::abs(value - mean_));
}

void StandardFit::add_share(double value) {
  // Squares of shares of the largest distance can neither overflow nor all vanish.
  const double distance = (value - mean_) / largest_;
  share_ += distance * distance / count_;
}

Standard StandardFit::standard() const {
  const double deviation = largest_ * std::sqrt(share_);
  // What rounding leaves of a constant column is not its deviation.
  const bool constant = deviation <= 1e-12 * std::abs(mean_) || !(deviation > 0);
  return {mean_, constant || !std::isfinite(deviation) ? 1.0 : deviation};
}

void fit_standard(const std::string& name,
                  const TableRows& rows,
                  const std::vector<std::int64_t>& train,
                  Missing missing,
                  Preprocessing& record) {
  TableRecord& table = *record.table;
  const std::size_t columns = table.columns.size(), labels = table.targets.size();
  std::vector<double> values(train.size());
  for (std::size_t f = 0; f < columns; ++f) {
    ColumnRecord& column = table.columns[f];
    if (column.kind != ColumnRecord::Kind::numeric) continue;
    for (std::size_t i = 0; i < train.size(); ++i)
      values[i] = rows.values[std::size_t(train[i]) * columns + f];
    if (column.fill) {
      std::vector<double> present = values;
      std::erase_if(present, [](double value) { return std::isnan(value); });
      if (present.empty())
        throw DataError(
            fmt::format("{}: expected numbers in column '{}', got no value in the training part",
                        as_written(name),
                        as_written(column.name)),
            fmt::format("leave it out with `drop` '{}'", as_written(column.name)));
      column.fill = middle_of(std::move(present), missing);
      for (double& value : values)
        if (std::isnan(value)) value = *column.fill;
    }
    const Standard standard = standard_of(values);
    column.mean = standard.mean;
    column.deviation = standard.deviation;
  }
  if (record.task != Task::regression) return;
  for (std::size_t l = 0; l < labels; ++l) {
    for (std::size_t i = 0; i < train.size(); ++i)
      values[i] = rows.targets[std::size_t(train[i]) * labels + l];
    const Standard standard = standard_of(values);
    table.targets[l].mean = standard.mean;
    table.targets[l].deviation = standard.deviation;
  }
}

}  // namespace lockstep::data
