// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/error.h"
#include "core/data/csv_table.h"
#include "core/data/input_file.h"
#include "core/data/row_split.h"
#include "core/data/sources.h"

namespace lockstep::data {
namespace {

/// Mean and deviation of each feature.
struct Standard {
  std::vector<double> mean;
  std::vector<double> deviation;
};

Standard standard_of(const CsvTable& table, const std::vector<std::int64_t>& rows) {
  const auto features = std::size_t(table.features);
  Standard standard{std::vector<double>(features, 0.0), std::vector<double>(features, 1.0)};
  const double n = double(rows.size());
  for (std::size_t f = 0; f < features; ++f) {
    const auto value = [&](std::int64_t row) {
      return table.values[std::size_t(row) * features + f];
    };
    // Dividing before adding keeps columns near the largest double finite.
    double mean = 0, largest = 0, share = 0;
    for (const std::int64_t row : rows) mean += value(row) / n;
    for (const std::int64_t row : rows) largest = std::max(largest, std::abs(value(row) - mean));
    standard.mean[f] = mean;
    // Squares of shares of the largest distance can neither overflow nor all vanish.
    for (const std::int64_t row : rows) {
      const double distance = (value(row) - mean) / largest;
      share += distance * distance / n;
    }
    const double deviation = largest * std::sqrt(share);
    // What rounding leaves of a constant column is not its deviation.
    const bool constant = deviation <= 1e-12 * std::abs(mean) || !(deviation > 0);
    standard.deviation[f] = constant || !std::isfinite(deviation) ? 1.0 : deviation;
  }
  return standard;
}

class Table final : public Dataset {
 public:
  Table(const std::string& file,
        const CsvTable& table,
        const std::vector<std::int64_t>& rows,
        const Standard& standard)
      : file_(file), features_(std::size_t(table.features)), classes_(table.classes) {
    spec_.input = {{table.features}, DType::f32};
    spec_.target = {{}, DType::i32};
    spec_.classes = int(table.classes.size());
    values_.reserve(rows.size() * features_);
    labels_.reserve(rows.size());
    for (const std::int64_t row : rows) {
      for (std::size_t f = 0; f < features_; ++f)
        values_.push_back(standardised(table, row, f, standard));
      labels_.push_back(table.labels[std::size_t(row)]);
    }
    hash_ = content_hash(values_.data(), values_.size() * sizeof(float), features_);
    hash_ = content_hash(labels_.data(), labels_.size() * sizeof(std::int32_t), hash_);
  }

  const SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return std::int64_t(labels_.size()); }
  std::vector<std::string> class_names() const override { return classes_; }
  void load(std::uint64_t epoch,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override {
    load_batch(epoch, {&index, 1}, input, target);
  }
  void load_batch(std::uint64_t /*epoch*/,
                  std::span<const std::int64_t> indices,
                  std::byte* input,
                  std::byte* target) const override {
    const std::size_t row_bytes = features_ * sizeof(float);
    for (const std::int64_t index : indices) {
      copy_row(input, values_.data() + std::size_t(index) * features_);
      std::memcpy(target, labels_.data() + index, sizeof(std::int32_t));
      input += row_bytes;
      target += sizeof(std::int32_t);
    }
  }
  std::string describe() const override {
    return fmt::format(
        "csv:{}, {} samples of {} features in {} classes", file_, size(), features_, spec_.classes);
  }
  std::uint64_t fingerprint() const override { return hash_; }

 private:
  /// Feature `f` of `row` in deviations from the mean.
  float standardised(const CsvTable& table,
                     std::int64_t row,
                     std::size_t f,
                     const Standard& standard) const {
    const double value = table.values[std::size_t(row) * features_ + f];
    const double result = (value - standard.mean[f]) / standard.deviation[f];
    if (std::abs(result) <= double(std::numeric_limits<float>::max())) return float(result);
    const std::int64_t line = row + 2;  // each sample is one line behind the header
    throw DataError(
        fmt::format("{}:{}:{}: expected a number that standardised features can hold, got {} "
                    "(column '{}', of mean {} and deviation {} in the training part)",
                    file_,
                    line,
                    f + 1,
                    value,
                    table.columns[f],
                    standard.mean[f],
                    standard.deviation[f]),
        "scale the column or remove the outlier");
  }
  /// Small rows in pieces of fixed size, which need no call.
  void copy_row(std::byte* to, const float* from) const {
    constexpr std::size_t kPiece = 4;
    if (features_ > 64) {
      std::memcpy(to, from, features_ * sizeof(float));
      return;
    }
    std::size_t f = 0;
    for (; f + kPiece <= features_; f += kPiece)
      std::memcpy(to + f * sizeof(float), from + f, kPiece * sizeof(float));
    for (; f < features_; ++f) std::memcpy(to + f * sizeof(float), from + f, sizeof(float));
  }

  std::string file_;
  std::size_t features_;
  std::vector<float> values_;         // [size, features]
  std::vector<std::int32_t> labels_;  // [size]
  std::vector<std::string> classes_;
  SampleSpec spec_;
  std::uint64_t hash_ = 0;
};

}  // namespace

DataSplit csv(const std::string& file, double validation_fraction, std::uint64_t seed) {
  const CsvTable table = read_csv(file);
  const auto [train, validation] = split_rows(table.rows, validation_fraction, seed, file);
  const Standard standard = standard_of(table, train);
  DataSplit split;
  split.train = std::make_shared<Table>(file, table, train, standard);
  if (!validation.empty())
    split.validation = std::make_shared<Table>(file, table, validation, standard);
  return split;
}

}  // namespace lockstep::data
