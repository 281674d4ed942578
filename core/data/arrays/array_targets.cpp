// SPDX-License-Identifier: Apache-2.0
#include "core/data/arrays/array_targets.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/text/printable.h"
#include "core/data/input_file.h"

namespace lockstep::data {
namespace {

/// Targets of `rows` samples are kept in memory, each of `width` numbers.
void check_kept(const NpyArray& labels, std::size_t rows, std::int64_t width) {
  const auto bytes = std::uint64_t(sizeof(double)) * std::uint64_t(width);
  if (rows <= kMaxFileBytes / bytes) return;
  throw DataError(fmt::format("{}: {} targets of {} numbers would have to be kept in memory, "
                              "expected at most {} bytes at {} a number",
                              as_written(labels.name()),
                              rows,
                              width,
                              kMaxFileBytes,
                              sizeof(double)),
                  "save classes as whole numbers [N] in place of one-hot [N, K], or train on fewer "
                  "rows");
}

std::string place(const NpyArray& labels, std::int64_t index) {
  return fmt::format("{}[{}]", as_written(labels.name()), index);
}

bool is_class(double value, std::int64_t classes) {
  return value >= 0 && value < double(classes) && value == std::floor(value);
}

void check_class_shape(const NpyArray& labels, const ArrayTask& task) {
  const std::int64_t width = labels.row_elems();
  LOCKSTEP_CHECK(labels.shape().size() <= 2 && (width == 1 || width == task.classes),
                 DataError,
                 "{}: expected labels [N] or one-hot [N, {}], got {}",
                 as_written(labels.name()),
                 task.classes,
                 labels.to_string());
}

std::int32_t class_of(const NpyArray& labels,
                      const ArrayTask& task,
                      std::int64_t index,
                      std::span<const double> row) {
  if (row.size() == 1) {
    LOCKSTEP_CHECK(is_class(row[0], task.classes),
                   DataError,
                   "{}: expected a class from 0 to {}, got {}",
                   place(labels, index),
                   task.classes - 1,
                   row[0]);
    return std::int32_t(row[0]);
  }
  const auto one = std::ranges::find(row, 1.0);
  const auto zeros = std::size_t(std::ranges::count(row, 0.0));
  LOCKSTEP_CHECK(one != row.end() && zeros + 1 == row.size(),
                 DataError,
                 "{}: expected a single 1 among zeros, as its other rows are one-hot",
                 place(labels, index));
  return std::int32_t(one - row.begin());
}

struct TargetSurvey {
  double largest = 0;
  bool is_binary = true;   // 0 and 1 alone
  bool is_one_hot = true;  // with a single 1 in each row
};

TargetSurvey survey(const NpyArray& labels) {
  TargetSurvey result;
  for_each_row(labels, [&](std::int64_t index, std::span<const double> row) {
    std::size_t ones = 0;
    for (const double value : row) {
      LOCKSTEP_CHECK(std::isfinite(value),
                     DataError,
                     "{}: expected a finite number, got {}",
                     place(labels, index),
                     value);
      result.largest = std::max(result.largest, value);
      result.is_binary &= value == 0 || value == 1;
      ones += value == 1;
    }
    result.is_one_hot &= result.is_binary && ones == 1;
  });
  result.is_one_hot &= labels.row_elems() > 1;
  return result;
}

Task choose_task(const NpyArray& labels, const TargetSurvey& found) {
  if (labels.row_elems() == 1)
    return labels.type().is_whole() ? Task::classification : Task::regression;
  if (found.is_one_hot) return Task::classification;
  if (found.is_binary) return Task::multi_label;
  if (labels.type().is_whole())
    throw ConfigError(
        fmt::format("{}: {} whole numbers a sample, expected 0 and 1 alone as labels",
                    as_written(labels.name()),
                    labels.row_elems()),
        "use `task` regression, or save them as float32, if they are amounts to predict");
  return Task::regression;
}

void check_wanted(const NpyArray& labels, const TargetSurvey& found, Task task) {
  const bool fits =
      task == Task::regression ||
      (task == Task::multi_label ? found.is_binary : labels.row_elems() == 1 || found.is_one_hot);
  LOCKSTEP_CHECK(fits,
                 ConfigError,
                 "`task` {}: {} is {}, expected {}",
                 name_of(task),
                 as_written(labels.name()),
                 labels.to_string(),
                 task == Task::multi_label
                     ? "0 and 1 alone"
                     : "one class a sample: [N] of whole numbers, or one-hot [N, K]");
}

}  // namespace

std::string ArrayTask::describe() const {
  switch (task) {
    case Task::regression:
      return fmt::format("and {} number{} to predict", width, width == 1 ? "" : "s");
    case Task::multi_label:
      return fmt::format("with {} labels", width);
    default:
      return fmt::format("in {} classes{}", classes, is_one_hot ? " (one-hot)" : "");
  }
}

ArrayTask find_array_task(const NpyArray& labels, std::optional<Task> wanted) {
  LOCKSTEP_CHECK(labels.shape().size() <= 2,
                 DataError,
                 "{}: expected labels [N] or [N, K], got {}",
                 as_written(labels.name()),
                 labels.to_string());
  const TargetSurvey found = survey(labels);
  ArrayTask result;
  result.task = wanted ? *wanted : choose_task(labels, found);
  check_wanted(labels, found, result.task);
  if (result.task != Task::classification) {
    result.width = labels.row_elems();
    return result;
  }
  result.is_one_hot = found.is_one_hot;
  LOCKSTEP_CHECK(result.is_one_hot || found.largest < double(kMaxArrayClasses),
                 DataError,
                 "{}: expected labels below {}, got {}",
                 as_written(labels.name()),
                 kMaxArrayClasses,
                 found.largest);
  result.classes = result.is_one_hot ? int(labels.row_elems()) : int(found.largest) + 1;
  check_class_shape(labels, result);
  for_each_row(labels, [&](std::int64_t index, std::span<const double> row) {
    class_of(labels, result, index, row);  // names the first that is not a class
  });
  LOCKSTEP_CHECK(result.classes >= 2,
                 DataError,
                 "{}: expected labels of at least 2 classes, got 0 alone",
                 as_written(labels.name()));
  return result;
}

std::vector<std::int32_t> read_classes(const NpyArray& labels,
                                       const ArrayTask& task,
                                       const std::vector<std::int64_t>& rows) {
  check_class_shape(labels, task);
  check_kept(labels, rows.size(), 1);
  std::vector<std::int32_t> classes;
  classes.reserve(rows.size());
  for_each_row(labels, rows, [&](std::int64_t index, std::span<const double> row) {
    classes.push_back(class_of(labels, task, index, row));
  });
  return classes;
}

std::vector<double> read_target_numbers(const NpyArray& labels,
                                        const ArrayTask& task,
                                        const std::vector<std::int64_t>& rows) {
  LOCKSTEP_CHECK(labels.shape().size() <= 2 && labels.row_elems() == task.width,
                 DataError,
                 "{}: expected {} numbers a sample, got {}",
                 as_written(labels.name()),
                 task.width,
                 labels.to_string());
  check_kept(labels, rows.size(), task.width);
  std::vector<double> numbers;
  numbers.reserve(rows.size() * std::size_t(task.width));
  for_each_row(labels, rows, [&](std::int64_t index, std::span<const double> row) {
    for (const double value : row) {
      const bool fits =
          task.task == Task::multi_label ? value == 0 || value == 1 : std::isfinite(value);
      LOCKSTEP_CHECK(fits,
                     DataError,
                     "{}: expected {}, got {}",
                     place(labels, index),
                     task.task == Task::multi_label ? "0 or 1" : "a finite number",
                     value);
      numbers.push_back(value);
    }
  });
  return numbers;
}

}  // namespace lockstep::data
