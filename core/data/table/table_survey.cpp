// SPDX-License-Identifier: Apache-2.0
#include "core/data/table/table_survey.h"

#include <algorithm>
#include <fmt/format.h>

#include "core/base/parameter_names.h"
#include "core/data/table/cell.h"

namespace lockstep::data {
namespace {

void look_at(std::string_view field, std::int64_t line, ColumnSurvey& survey) {
  if (is_missing(field)) {
    ++survey.missing;
  } else if (to_number(field)) {
    ++survey.numbers;
  } else {
    if (survey.texts++ == 0) survey.first_text = {line, std::string(field)};
  }
}

void look_at_label(std::string_view field,
                   std::int64_t line,
                   std::size_t max_distinct,
                   LabelSurvey& survey) {
  const std::int64_t numbers = survey.numbers;
  look_at(field, line, survey);
  if (survey.numbers == numbers) return;
  const auto whole = to_whole(field);
  if (!whole) {
    if (survey.first_decimal.line == 0) survey.first_decimal = {line, std::string(field)};
  } else if (survey.whole.size() <= max_distinct) {
    survey.whole.insert(*whole);
  }
}

}  // namespace

void refuse_text(const RowReader& table, std::size_t field, const ColumnSurvey& column) {
  const std::string& name = table.header()[field];
  std::string hint = fmt::format(
      "correct it, or empty the field and say `missing`; `categorical` '{0}' makes a category of "
      "each of the column's values, `drop` '{0}' takes the column away",
      name);
  if (column.has_stray_texts()) hint += ", `skip_bad_samples` skips rows with a text in it";
  throw DataError(
      fmt::format("{}:{}:{}: expected a finite number as in {} of {} rows, got {} (column '{}')",
                  as_written(table.name()),
                  column.first_text.line,
                  field + 1,
                  column.numbers,
                  column.numbers + column.texts + column.missing,
                  as_written(shown(column.first_text.value)),
                  as_written(name)),
      hint);
}

TableSurvey survey_table(RowReader& table, const ColumnRoles& roles, BadRows& bad) {
  TableSurvey survey;
  survey.features.resize(roles.features.size());
  survey.labels.resize(roles.labels.size());
  // Of several it is only asked whether they hold 0 and 1 alone.
  const std::size_t max_distinct = roles.labels.size() == 1 ? LabelSurvey::kMaxDistinct : 2;
  while (bad.next(table)) {
    const auto fields = table.fields();
    for (std::size_t f = 0; f < roles.features.size(); ++f)
      look_at(fields[roles.features[f]], table.line(), survey.features[f]);
    for (std::size_t l = 0; l < roles.labels.size(); ++l)
      look_at_label(fields[roles.labels[l]], table.line(), max_distinct, survey.labels[l]);
    ++survey.rows;
  }
  if (survey.rows == 0 && bad.size() > 0) bad.refuse_all(table);
  if (survey.rows == 0)
    throw DataError(
        fmt::format("{}: expected samples, got only a header line", as_written(table.name())),
        kTableFormat);
  return survey;
}

}  // namespace lockstep::data
