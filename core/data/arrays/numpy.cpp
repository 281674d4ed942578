// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/data/arrays/array_inputs.h"
#include "core/data/arrays/array_set.h"
#include "core/data/arrays/array_targets.h"
#include "core/data/content_sample.h"
#include "core/data/input_file.h"
#include "core/data/preprocessing.h"
#include "core/data/row_split.h"
#include "core/data/table/standard.h"
#include "lockstep/data/preprocessing.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {
namespace {

/// What the samples of a source have in common; of a table complete once it is fitted.
struct ArrayPlan {
  ArrayTask task;
  std::shared_ptr<const Preprocessing> record;
  std::shared_ptr<const TableRecord> table;  // null: of images
};

/// Rows of a pair of arrays.
class ArrayDataset final : public Dataset {
 public:
  ArrayDataset(std::string source,
               LabelledArrays arrays,
               std::vector<std::int64_t> rows,
               const ArrayPlan& plan)
      : source_(std::move(source)),
        record_(plan.record),
        task_(plan.task),
        rows_(std::move(rows)),
        inputs_(std::move(arrays.inputs), record_->samples.input, plan.table),
        width_(task_.task == Task::classification ? 1 : std::size_t(task_.width)) {
    add_targets(arrays.targets, plan.table.get());
    hash_ = inputs_.array().hash();
    hash_ = content_hash(targets_.data(), targets_.size() * sizeof(std::int32_t), hash_);
    hash_ = content_hash(rows_.data(), rows_.size() * sizeof(std::int64_t), hash_);
    const std::string_view task = name_of(task_.task);
    hash_ = content_hash(task.data(), task.size(), hash_);
  }

  const SampleSpec& spec() const override { return record_->samples; }
  std::int64_t size() const override { return std::int64_t(rows_.size()); }
  void load(std::uint64_t /*epoch*/,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override {
    inputs_.load(rows_[std::size_t(index)], input);
    std::memcpy(
        target, targets_.data() + std::size_t(index) * width_, width_ * sizeof(std::int32_t));
  }
  std::int32_t label(std::int64_t index) const override { return targets_[std::size_t(index)]; }
  std::string describe() const override {
    return fmt::format("numpy:{}, {} samples of {} {}",
                       source_,
                       size(),
                       inputs_.array().type().name() + record_->samples.input.shape.to_string(),
                       task_.describe());
  }
  std::vector<std::string> class_names() const override { return record_->class_names; }
  Preprocessing preprocessing() const override { return *record_; }
  std::uint64_t fingerprint() const override { return hash_; }
  ContentSample content_sample(std::uint64_t seed) const override {
    const std::string file = inputs_.array().partly_hashed_file();
    return file.empty() ? ContentSample{} : sample_file(file, seed);
  }

 private:
  void add_targets(const NpyArray& targets, const TableRecord* table) {
    if (task_.task == Task::classification) {
      targets_ = read_classes(targets, task_, rows_);
      return;
    }
    const std::vector<double> numbers = read_target_numbers(targets, task_, rows_);
    targets_.reserve(numbers.size());
    for (std::size_t i = 0; i < rows_.size(); ++i)
      for (std::size_t t = 0; t < width_; ++t) {
        double number = numbers[i * width_ + t];
        if (table != nullptr && task_.task == Task::regression)
          number = (number - table->targets[t].mean) / table->targets[t].deviation;
        const auto target = float(number);
        LOCKSTEP_CHECK(std::isfinite(target),
                       DataError,
                       "{}[{}]: expected a number that f32 can hold, got {}",
                       as_written(targets.name()),
                       rows_[i],
                       numbers[i * width_ + t]);
        std::int32_t bits = 0;
        std::memcpy(&bits, &target, sizeof bits);
        targets_.push_back(bits);
      }
  }

  std::string source_;
  std::shared_ptr<const Preprocessing> record_;
  ArrayTask task_;
  std::vector<std::int64_t> rows_;
  ArrayInputs inputs_;
  std::size_t width_;                  // targets of a sample
  std::vector<std::int32_t> targets_;  // [size, width]: classes, or the bits of floats
  std::uint64_t hash_ = 0;
};

/// Of regression, as tables have it: each target by its own mean and deviation.
void fit_targets(const NpyArray& targets,
                 const ArrayTask& task,
                 const std::vector<std::int64_t>& rows,
                 TableRecord& table) {
  const std::vector<double> numbers = read_target_numbers(targets, task, rows);
  const std::size_t width = table.targets.size();
  for (std::size_t t = 0; t < table.targets.size(); ++t) {
    StandardFit fit(std::int64_t(rows.size()));
    for (std::size_t i = t; i < numbers.size(); i += width) fit.add_to_mean(numbers[i]);
    for (std::size_t i = t; i < numbers.size(); i += width) fit.add_distance(numbers[i]);
    for (std::size_t i = t; i < numbers.size(); i += width) fit.add_share(numbers[i]);
    const Standard standard = fit.standard();
    table.targets[t].mean = standard.mean;
    table.targets[t].deviation = standard.deviation;
  }
}

void set_targets(const ArrayTask& task, Preprocessing& record) {
  record.task = task.task;
  record.samples.classes = task.classes;
  record.samples.multi_label = task.task == Task::multi_label;
  record.samples.target = task.task == Task::classification ? TensorType{{}, DType::i32}
                                                            : TensorType{{task.width}, DType::f32};
}

/// Of data that nothing was trained on: `rows` are those of the training part.
ArrayPlan plan_arrays(const LabelledArrays& train,
                      const std::vector<std::int64_t>& rows,
                      const OpenOptions& options) {
  ArrayPlan plan;
  plan.task = find_array_task(train.targets, options.table.task);
  auto record = std::make_shared<Preprocessing>();
  record->source = "numpy";
  record->samples.input = array_sample_type(train.inputs);
  set_targets(plan.task, *record);
  const Shape& shape = record->samples.input.shape;
  if (shape.rank() == 1) {
    auto table = std::make_shared<TableRecord>(
        array_table(shape[0], plan.task.task == Task::classification ? 1 : plan.task.width));
    fit_array_table(train.inputs, rows, *table);
    if (plan.task.task == Task::regression) fit_targets(train.targets, plan.task, rows, *table);
    record->table = *table;
    plan.table = std::move(table);
  } else if (record->samples.input.dtype == DType::u8) {
    set_array_scale(record->samples);
    // The side that a photograph's short one becomes before the middle is cut out of it.
    record->image = ImageRecord{.width = int(shape[1]),
                                .height = int(shape[0]),
                                .channels = int(shape[2]),
                                .short_side = int(std::max(shape[0], shape[1]))};
  }
  plan.record = std::move(record);
  return plan;
}

/// By the record of a run, whose labels are those of `arrays`.
ArrayPlan plan_of_run(const Preprocessing& trained) {
  ArrayPlan plan;
  plan.task.task = trained.task;
  plan.task.classes = trained.samples.classes;
  plan.task.width = trained.task == Task::classification ? 1 : trained.samples.target.elems();
  if (trained.table) plan.table = std::make_shared<const TableRecord>(*trained.table);
  auto record = std::make_shared<Preprocessing>(trained);
  record->samples.ignore_index.reset();  // open() looks for it in the labels themselves
  plan.record = std::move(record);
  return plan;
}

std::vector<std::int64_t> all_rows(const LabelledArrays& arrays) {
  std::vector<std::int64_t> rows(std::size_t(arrays.inputs.rows()));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return rows;
}

/// A side of an image is a number of 16 bits in records.
void check_sides(const NpyArray& images) {
  constexpr std::int64_t kMaxSide = 1 << 16;
  for (std::size_t i = 1; i < images.shape().size() && images.shape().size() > 2; ++i)
    LOCKSTEP_CHECK(images.shape()[i] <= kMaxSide,
                   DataError,
                   "{}: expected sides of at most {}, got {}",
                   as_written(images.name()),
                   kMaxSide,
                   images.to_string());
}

std::shared_ptr<const Dataset> evaluated_arrays(const std::string& path,
                                                const ArraySet& set,
                                                const OpenOptions& options) {
  const ArrayPlan plan = plan_of_run(*options.trained);
  LOCKSTEP_CHECK(options.trained->task != Task::next_token,
                 ConfigError,
                 "data: {} holds samples with labels, the run was trained on tokens",
                 as_written(path));
  const auto part = [&](const LabelledArrays& arrays, std::vector<std::int64_t> rows) {
    return std::make_shared<ArrayDataset>(path, arrays, std::move(rows), plan);
  };
  if (set.validation) return part(*set.validation, all_rows(*set.validation));
  const LabelledArrays& whole = set.train ? *set.train : *set.whole;
  if (options.validation_fraction == 0) return nullptr;
  if (options.validation_fraction == 1) return part(whole, all_rows(whole));
  return part(
      whole,
      split_rows(whole.inputs.rows(), options.validation_fraction, options.seed, path).validation);
}

}  // namespace

DataSplit numpy(const std::string& path, const OpenOptions& options) {
  const ArraySet set = open_array_set(path);
  const LabelledArrays& train = set.train ? *set.train : *set.whole;
  check_sides(train.inputs);
  if (options.trained) return {nullptr, evaluated_arrays(path, set, options)};
  LOCKSTEP_CHECK(!set.validation || options.validation_fraction == 0,
                 ConfigError,
                 "data: {} has a validation part, so a validation fraction ({}) cannot be chosen",
                 as_written(path),
                 options.validation_fraction);
  auto [rows, kept] =
      split_rows(train.inputs.rows(), options.validation_fraction, options.seed, path);
  const ArrayPlan plan = plan_arrays(train, rows, options);
  DataSplit split;
  split.train = std::make_shared<ArrayDataset>(path, train, std::move(rows), plan);
  if (set.validation)
    split.validation =
        std::make_shared<ArrayDataset>(path, *set.validation, all_rows(*set.validation), plan);
  else if (!kept.empty())
    split.validation = std::make_shared<ArrayDataset>(path, train, std::move(kept), plan);
  return split;
}

}  // namespace lockstep::data
