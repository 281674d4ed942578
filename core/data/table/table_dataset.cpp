// SPDX-License-Identifier: Apache-2.0
#include "core/data/table/table_dataset.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fmt/format.h>

#include "core/data/input_file.h"
#include "core/data/table/row_encoder.h"

namespace lockstep::data {
namespace {

class TableDataset final : public Dataset {
 public:
  TableDataset(const RowReader& table,
               const ColumnRoles& roles,
               const TableRows& rows,
               const std::vector<std::int64_t>& chosen,
               std::shared_ptr<const Preprocessing> record,
               std::string note,
               SkippedRecords skipped)
      : file_(table.name()),
        note_(std::move(note)),
        skipped_(std::move(skipped)),
        record_(std::move(record)),
        columns_(record_->table->columns.size()),
        features_(std::size_t(record_->table->features())),
        labels_(record_->table->targets.size()),
        size_(std::int64_t(chosen.size())),
        is_copied_(std::ranges::all_of(record_->table->columns, [](const ColumnRecord& column) {
          return column.kind == ColumnRecord::Kind::numeric || column.embedded;
        })) {
    const RowEncoder encoder(file_, roles, *record_->table);
    values_.resize(chosen.size() * columns_);
    targets_.reserve(chosen.size() * labels_);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const auto row = std::size_t(chosen[i]);
      encoder.standardise(
          rows.values.data() + row * columns_, rows.lines[row], values_.data() + i * columns_);
      add_targets(encoder, rows.targets.data() + row * labels_, rows.lines[row]);
    }
    hash_ = hash_of_samples();
  }

  const SampleSpec& spec() const override { return record_->samples; }
  std::int64_t size() const override { return size_; }
  std::vector<std::string> class_names() const override { return record_->class_names; }
  Preprocessing preprocessing() const override { return *record_; }
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
    const std::size_t target_bytes = labels_ * sizeof(std::int32_t);
    for (const std::int64_t index : indices) {
      const float* row = values_.data() + std::size_t(index) * columns_;
      is_copied_ ? copy_row(input, row) : copy_expanded(input, row);
      std::memcpy(target, targets_.data() + std::size_t(index) * labels_, target_bytes);
      input += row_bytes;
      target += target_bytes;
    }
  }
  std::string describe() const override {
    return fmt::format("csv:{}, {} samples of {} features{} {}{}",
                       file_,
                       size_,
                       features_,
                       is_copied_ ? "" : fmt::format(" from {} columns", columns_),
                       describe_targets(),
                       note_.empty() ? "" : "; " + note_);
  }
  SkippedRecords skipped_records() const override { return skipped_; }
  std::uint64_t fingerprint() const override { return hash_; }

 private:
  void add_targets(const RowEncoder& encoder, const double* targets, std::int64_t line) {
    if (record_->task == Task::classification) {
      targets_.push_back(std::int32_t(targets[0]));
      return;
    }
    std::vector<float> numbers(labels_);
    encoder.standardise_targets(targets, line, numbers.data());
    for (const float number : numbers) targets_.push_back(std::bit_cast<std::int32_t>(number));
  }

  std::uint64_t hash_of_samples() const {
    std::uint64_t hash = content_hash(values_.data(), values_.size() * sizeof(float), features_);
    hash = content_hash(targets_.data(), targets_.size() * sizeof(std::int32_t), hash);
    // The same numbers may be other categories, learnt otherwise or by another loss.
    for (const ColumnRecord& column : record_->table->columns)
      for (const std::string& category : column.categories)
        hash = content_hash(category.data(), category.size(), hash);
    for (const EmbeddedColumn& column : record_->samples.embedded)
      hash = content_hash(&column.feature, sizeof column.feature, hash);
    const std::string_view task = name_of(record_->task);
    return record_->task == Task::classification ? hash
                                                 : content_hash(task.data(), task.size(), hash);
  }

  std::string describe_targets() const {
    switch (record_->task) {
      case Task::regression:
        return fmt::format("and {} number{} to predict", labels_, labels_ == 1 ? "" : "s");
      case Task::multi_label:
        return fmt::format("with {} labels", labels_);
      default:
        return fmt::format("in {} classes", record_->samples.classes);
    }
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

  /// `to` need not be aligned for floats.
  void copy_expanded(std::byte* to, const float* from) const {
    thread_local std::vector<float> features;
    features.resize(features_);
    expand_categories(*record_->table, from, features.data());
    std::memcpy(to, features.data(), features_ * sizeof(float));
  }

  std::string file_, note_;
  SkippedRecords skipped_;
  std::shared_ptr<const Preprocessing> record_;
  std::size_t columns_, features_, labels_;
  std::int64_t size_;
  bool is_copied_;                     // each column is one feature, as it lies in values_
  std::vector<float> values_;          // [size, columns], see RowEncoder
  std::vector<std::int32_t> targets_;  // [size, labels]: classes, or the bits of floats
  std::uint64_t hash_ = 0;
};

}  // namespace

std::shared_ptr<const Dataset> make_table_dataset(const RowReader& table,
                                                  const ColumnRoles& roles,
                                                  const TableRows& rows,
                                                  const std::vector<std::int64_t>& chosen,
                                                  std::shared_ptr<const Preprocessing> record,
                                                  const std::string& note,
                                                  SkippedRecords skipped) {
  return std::make_shared<TableDataset>(
      table, roles, rows, chosen, std::move(record), note, std::move(skipped));
}

}  // namespace lockstep::data
