// SPDX-License-Identifier: Apache-2.0
#include "core/data/arrays/array_inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/data/normalisation.h"
#include "core/data/table/standard.h"

namespace lockstep::data {
namespace {

bool is_color_count(std::int64_t extent) { return extent == 1 || extent == 3; }

[[noreturn]] void refuse_shape(const NpyArray& array,
                               const std::string& expected,
                               const std::string& hint) {
  throw DataError(
      fmt::format("{}: expected {}, got {}", as_written(array.name()), expected, array.to_string()),
      hint);
}

/// Of images [N, H, W, C].
void check_channels(const NpyArray& array) {
  const std::int64_t channels = array.shape()[3];
  const bool is_bytes = array.type().kind == NpyType::Kind::unsigned_whole;
  if (is_color_count(channels) || (!is_bytes && !is_color_count(array.shape()[1]))) return;
  if (is_color_count(array.shape()[1]))
    refuse_shape(array,
                 "images [N, H, W, C] with the channels last",
                 "reorder them: numpy.ascontiguousarray(x.transpose(0, 2, 3, 1))");
  refuse_shape(array,
               "uint8 images of 1 or 3 channels",
               "images of other channels can be float32, scaled as the model should see them");
}

[[noreturn]] void refuse_number(const NpyArray& array,
                                std::int64_t row,
                                std::size_t column,
                                double value,
                                const std::string& expected) {
  throw DataError(fmt::format("{}[{}, {}]: expected {}, got {}",
                              as_written(array.name()),
                              row,
                              column,
                              expected,
                              value),
                  "replace it, or leave the row out");
}

}  // namespace

TensorType array_sample_type(const NpyArray& array) {
  const std::vector<std::int64_t>& shape = array.shape();
  if (shape.size() == 1)
    refuse_shape(array,
                 "images [N, H, W, C] or features [N, F]",
                 "one feature is x[:, None]; tokens of a text are `data` tokens:FILE.npy");
  if (shape.size() == 2) {
    if (shape[1] > kMaxArrayFeatures)
      refuse_shape(array, fmt::format("at most {} features", kMaxArrayFeatures), "");
    return {{shape[1]}, DType::f32};
  }
  if (shape.size() > 4) refuse_shape(array, "images [N, H, W, C] or features [N, F]", "");
  const NpyType& type = array.type();
  const bool is_bytes = type.kind == NpyType::Kind::unsigned_whole && type.bytes == 1;
  if (type.is_whole() && !is_bytes)
    refuse_shape(array, "images of uint8 or floats", "convert them: x.astype('uint8')");
  if (shape.size() == 4) check_channels(array);
  return {{shape[1], shape[2], shape.size() == 4 ? shape[3] : 1},
          is_bytes ? DType::u8 : DType::f32};
}

void set_array_scale(SampleSpec& spec) {
  if (spec.input.dtype != DType::u8) return;
  if (spec.input.shape[2] == 1)
    normalise(spec, kMnistMean, kMnistDeviation);
  else
    normalise(spec, kImageNetMean, kImageNetDeviation);
}

TableRecord array_table(std::int64_t features, std::int64_t targets) {
  TableRecord table;
  for (std::int64_t f = 0; f < features; ++f) {
    table.columns.emplace_back();
    table.columns.back().name = std::to_string(f);
  }
  for (std::int64_t t = 0; t < targets; ++t)
    table.targets.push_back({.name = targets == 1 ? "y" : fmt::format("y{}", t)});
  return table;
}

void fit_array_table(const NpyArray& array,
                     const std::vector<std::int64_t>& rows,
                     TableRecord& table) {
  std::vector<StandardFit> fits(table.columns.size(), StandardFit(std::int64_t(rows.size())));
  for_each_row(array, rows, [&](std::int64_t row, std::span<const double> numbers) {
    for (std::size_t f = 0; f < fits.size(); ++f) {
      if (!std::isfinite(numbers[f])) refuse_number(array, row, f, numbers[f], "a finite number");
      fits[f].add_to_mean(numbers[f]);
    }
  });
  for_each_row(array, rows, [&](std::int64_t, std::span<const double> numbers) {
    for (std::size_t f = 0; f < fits.size(); ++f) fits[f].add_distance(numbers[f]);
  });
  for_each_row(array, rows, [&](std::int64_t, std::span<const double> numbers) {
    for (std::size_t f = 0; f < fits.size(); ++f) fits[f].add_share(numbers[f]);
  });
  for (std::size_t f = 0; f < fits.size(); ++f) {
    const Standard standard = fits[f].standard();
    table.columns[f].mean = standard.mean;
    table.columns[f].deviation = standard.deviation;
  }
}

ArrayInputs::ArrayInputs(NpyArray array,
                         const TensorType& type,
                         std::shared_ptr<const TableRecord> table)
    : array_(std::move(array)), is_bytes_(type.dtype == DType::u8), table_(std::move(table)) {
  const TensorType found = array_sample_type(array_);
  LOCKSTEP_CHECK(found == type,
                 DataError,
                 "{}: expected samples of {}, got {} of {}",
                 as_written(array_.name()),
                 type.to_string(),
                 found.to_string(),
                 array_.to_string());
  if (!table_) return;
  for (const ColumnRecord& column : table_->columns)
    LOCKSTEP_CHECK(column.kind == ColumnRecord::Kind::numeric,
                   DataError,
                   "{}: an array has numbers alone, and column '{}' of the run has categories",
                   as_written(array_.name()),
                   as_written(column.name));
}

ArrayInputs::ArrayInputs(NpyArray array, const Preprocessing& trained)
    : ArrayInputs(std::move(array),
                  trained.samples.input,
                  trained.table ? std::make_shared<const TableRecord>(*trained.table) : nullptr) {}

std::string ArrayInputs::place(std::int64_t row) const {
  return fmt::format("{}[{}]", array_.name(), row);
}

void ArrayInputs::load(std::int64_t row, std::byte* to) const {
  if (is_bytes_) return array_.read(row, 1, {to, array_.row_bytes()});
  table_ ? load_standardised(row, to) : load_floats(row, to);
}

/// `to` need not be aligned for floats.
void ArrayInputs::load_standardised(std::int64_t row, std::byte* to) const {
  static thread_local std::vector<double> numbers;
  numbers.resize(std::size_t(array_.row_elems()));
  array_.read_numbers(row, 1, std::span(numbers));
  for (std::size_t f = 0; f < numbers.size(); ++f) {
    const ColumnRecord& column = table_->columns[f];
    const double result = (numbers[f] - column.mean) / column.deviation;
    if (!(std::abs(result) <= double(std::numeric_limits<float>::max())))
      refuse_number(array_, row, f, numbers[f], "a number that standardised features can hold");
    const auto feature = float(result);
    std::memcpy(to + f * sizeof feature, &feature, sizeof feature);
  }
}

void ArrayInputs::load_floats(std::int64_t row, std::byte* to) const {
  static thread_local std::vector<float> numbers;
  numbers.resize(std::size_t(array_.row_elems()));
  array_.read_numbers(row, 1, std::span(numbers));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    LOCKSTEP_CHECK(std::isfinite(numbers[i]),
                   DataError,
                   "{}: expected finite numbers, got {} as its element {}",
                   as_written(place(row)),
                   numbers[i],
                   i);
  std::memcpy(to, numbers.data(), numbers.size() * sizeof(float));
}

}  // namespace lockstep::data
