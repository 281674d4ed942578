// SPDX-License-Identifier: Apache-2.0
#include "core/data/table/table_notes.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/parameter_names.h"
#include "core/data/table/cell.h"

namespace lockstep::data {
namespace {

/// At most so many things of a kind are named.
constexpr std::size_t kMaxNamed = 3;

using Notes = std::vector<std::string>;

std::string rows_text(std::int64_t rows) {
  return fmt::format("{} row{}", rows, rows == 1 ? "" : "s");
}

/// "BEGIN first, second and 5 more"; nothing where there is none.
void add_list(const std::string& begin, const Notes& things, Notes& notes) {
  if (things.empty()) return;
  const std::size_t named = std::min(things.size(), kMaxNamed);
  std::string list = fmt::format(
      "{} {}", begin, fmt::join(things.begin(), things.begin() + std::ptrdiff_t(named), ", "));
  if (things.size() > named) list += fmt::format(" and {} more", things.size() - named);
  notes.push_back(std::move(list));
}

/// Columns that the rule made categorical, though some of their values are numbers.
void add_mixed(const RowReader& table,
               const ColumnRoles& roles,
               const TableSurvey& survey,
               const Preprocessing& record,
               Notes& notes) {
  Notes mixed;
  for (std::size_t f = 0; f < roles.features.size(); ++f) {
    const ColumnSurvey& column = survey.features[f];
    const bool is_chosen = record.table->columns[f].kind == ColumnRecord::Kind::categorical &&
                           !roles.is_categorical(roles.features[f]);
    if (!is_chosen || column.numbers == 0) continue;
    mixed.push_back(fmt::format("'{}' ({} number{} and {} text{}, as {} in line {})",
                                table.header()[roles.features[f]],
                                column.numbers,
                                column.numbers == 1 ? "" : "s",
                                column.texts,
                                column.texts == 1 ? "" : "s",
                                shown(column.first_text.value),
                                column.first_text.line));
  }
  add_list("numbers and texts are categories in", mixed, notes);
}

void add_skipped(const TableRows& rows, const BadRows& bad, Notes& notes) {
  if (rows.skipped > 0) notes.push_back(rows_text(rows.skipped) + " with missing values dropped");
  if (bad.size() > 0)
    notes.push_back(rows_text(std::int64_t(bad.size())) + " that cannot be read skipped");
}

std::string joined(const Notes& notes) { return fmt::format("{}", fmt::join(notes, "; ")); }

}  // namespace

std::string training_note(const RowReader& table,
                          const ColumnRoles& roles,
                          const TableSurvey& survey,
                          const TaskChoice& choice,
                          const TableRows& rows,
                          const BadRows& bad,
                          const Preprocessing& record) {
  Notes notes;
  if (!choice.reason.empty()) notes.push_back(choice.reason);
  if (has_numbered_features(table, roles.features))
    notes.push_back(fmt::format("the first line is the header, with numbers for names: {} to {}",
                                table.header()[roles.features.front()],
                                table.header()[roles.features.back()]));
  add_mixed(table, roles, survey, record, notes);
  add_list("one category each:", rows.merged, notes);
  if (record.task == Task::classification) {
    const auto missing = std::ranges::find_if(record.class_names, is_missing);
    if (missing != record.class_names.end())
      notes.push_back(name_parameters(fmt::format("{} is a class (`missing` drop skips its rows)",
                                                  as_written(shown(*missing)))));
  }
  add_skipped(rows, bad, notes);
  return joined(notes);
}

std::string evaluation_note(const TableRows& rows, const BadRows& bad) {
  Notes notes;
  add_skipped(rows, bad, notes);
  return joined(notes);
}

}  // namespace lockstep::data
