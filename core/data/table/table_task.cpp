// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/data/table/cell.h"
#include "core/data/table/table_survey.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kFewClasses = 20;
constexpr std::int64_t kRowsOfAClass = 5;

/// Not looking at texts.
bool holds_0_and_1(const LabelSurvey& label) {
  return label.first_decimal.line == 0 && !label.whole.empty() && *label.whole.begin() >= 0 &&
         *label.whole.rbegin() <= 1;
}

/// Of a column of whole numbers, each of which may be a class or an amount.
TaskChoice choose_by_whole_numbers(const RowReader& table,
                                   const std::string& column,
                                   const LabelSurvey& label) {
  const auto distinct = std::int64_t(label.whole.size());
  const bool few = distinct <= kFewClasses;
  const bool often = label.numbers >= kRowsOfAClass * distinct;
  const bool counting =
      distinct > 0 && *label.whole.begin() == 0 && *label.whole.rbegin() == distinct - 1;
  if (counting && (few || often))
    return {
        Task::classification,
        fmt::format("classification: '{}' holds the whole numbers 0 to {}", column, distinct - 1)};
  if (distinct <= 1 || (few && often))
    return {Task::classification,
            fmt::format("classification: '{}' holds {} different whole numbers", column, distinct)};
  throw ConfigError(
      fmt::format("{}: expected label column '{}' to tell classes from amounts, got {} different "
                  "whole numbers in {} rows",
                  as_written(table.name()),
                  as_written(column),
                  distinct > std::int64_t(LabelSurvey::kMaxDistinct)
                      ? fmt::format("more than {}", LabelSurvey::kMaxDistinct)
                      : std::to_string(distinct),
                  label.numbers),
      "say `task` regression to predict the number, or `task` classification to predict one of "
      "these values");
}

TaskChoice choose_by_names(const std::string& column, const LabelSurvey& label) {
  std::string reason = fmt::format("classification: '{}' holds names", column);
  const auto& decimal = label.first_decimal;
  const bool has_numbers =
      !label.whole.empty() || (decimal.line != 0 && !is_number_word(decimal.value));
  if (has_numbers)
    reason += fmt::format(" in addition to numbers, as {} in line {}",
                          shown(label.first_text.value),
                          label.first_text.line);
  return {Task::classification, std::move(reason)};
}

/// Of a column in which some number is not an int64 that doubles can tell from its neighbours.
TaskChoice choose_by_decimals(const std::string& column, const LabelSurvey& label) {
  const std::string& value = label.first_decimal.value;
  return {Task::regression,
          fmt::format("regression: '{}' holds numbers that are {}, as {} in line {}",
                      column,
                      is_past_whole(value) ? "too large for classes" : "not whole",
                      shown(value),
                      label.first_decimal.line)};
}

TaskChoice choose_by_one(const RowReader& table,
                         const std::string& column,
                         const LabelSurvey& label) {
  const bool has_decimals = label.first_decimal.line != 0;
  const bool has_amounts = has_decimals ? !is_number_word(label.first_decimal.value)
                                        : std::int64_t(label.whole.size()) > kFewClasses;
  if (label.texts > 0 && !(label.has_stray_texts() && has_amounts))
    return choose_by_names(column, label);
  // A stray text is named when its row is read.
  if (has_decimals) return choose_by_decimals(column, label);
  const TaskChoice choice = choose_by_whole_numbers(table, column, label);
  return label.texts > 0 ? choose_by_names(column, label) : choice;
}

TaskChoice choose_by_several(const RowReader& table,
                             const ColumnRoles& roles,
                             const std::vector<LabelSurvey>& labels,
                             bool skips_texts) {
  for (std::size_t l = 0; l < labels.size(); ++l) {
    const auto& text = labels[l].first_text;
    if (text.line != 0 && !skips_texts)
      throw DataError(fmt::format("{}:{}:{}: expected a number in each of several label columns, "
                                  "got {} (column '{}')",
                                  as_written(table.name()),
                                  text.line,
                                  roles.labels[l] + 1,
                                  as_written(shown(text.value)),
                                  as_written(table.header()[roles.labels[l]])),
                      "classes are predicted of one label column");
  }
  if (std::ranges::all_of(labels, holds_0_and_1))
    return {Task::multi_label, "multi-label: all label columns hold 0 and 1"};
  return {Task::regression, "regression: several label columns of numbers"};
}

}  // namespace

TaskChoice choose_task(const RowReader& table,
                       const ColumnRoles& roles,
                       const TableSurvey& survey,
                       const TableOptions& options) {
  const std::size_t labels = roles.labels.size();
  if (!options.task)
    return labels == 1 ? choose_by_one(table, table.header()[roles.labels[0]], survey.labels[0])
                       : choose_by_several(table, roles, survey.labels, options.skips_bad_rows);
  LOCKSTEP_CHECK(*options.task != Task::next_token,
                 ConfigError,
                 "{}: a table has no tokens; expected the task classification, regression or "
                 "multi-label",
                 as_written(table.name()));
  LOCKSTEP_CHECK(*options.task != Task::classification || labels == 1,
                 ConfigError,
                 "{}: `task` classification predicts one label column, got {}",
                 as_written(table.name()),
                 labels);
  return {*options.task, ""};
}

}  // namespace lockstep::data
