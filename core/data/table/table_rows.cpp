// SPDX-License-Identifier: Apache-2.0
#include "core/data/table/table_rows.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/data/table/cell.h"
#include "core/data/table/row_parser.h"

namespace lockstep::data {
namespace {

TableRows parse_all(RowReader& table,
                    const ColumnRoles& roles,
                    RowParser& parser,
                    BadRows& bad,
                    std::int64_t rows) {
  TableRows result;
  const std::size_t columns = roles.features.size(), labels = roles.labels.size();
  result.values.reserve(std::size_t(rows) * columns);
  result.targets.reserve(std::size_t(rows) * labels);
  result.lines.reserve(std::size_t(rows));
  std::vector<double> values(columns), targets(labels);
  while (bad.next(table)) {
    bool is_complete = false;
    const auto parse = [&] { is_complete = parser.parse(values.data(), targets.data()); };
    if (!bad.read_row(parse)) continue;
    if (!is_complete) {
      ++result.skipped;
      continue;
    }
    result.values.insert(result.values.end(), values.begin(), values.end());
    result.targets.insert(result.targets.end(), targets.begin(), targets.end());
    result.lines.push_back(std::uint32_t(table.line()));
  }
  if (result.size() > 0) return result;
  if (bad.size() > 0) bad.refuse_all(table);
  if (result.skipped == 0)
    throw DataError(
        fmt::format("{}: expected samples, got only a header line", as_written(table.name())),
        kTableFormat);
  throw DataError(
      fmt::format("{}: expected samples, got {} rows with missing values in all of them",
                  as_written(table.name()),
                  result.skipped),
      "drop columns without values with `drop`");
}

/// Replaces numbers by those that `order` has for them.
void renumber(std::vector<double>& values,
              std::size_t first,
              std::size_t stride,
              const std::vector<double>& order) {
  for (std::size_t i = first; i < values.size(); i += stride)
    if (values[i] != kMissingText) values[i] = order[std::size_t(values[i])];
}

/// Of texts that are the same number the one that stands for them: the shortest, the first of
/// those. The others are noted.
std::map<double, std::string> representatives(const Vocabulary& found,
                                              const std::string& column,
                                              std::vector<std::string>& merged) {
  std::map<double, std::string> result;
  for (const auto& [text, index] : found) {
    const auto number = category_number(text);
    if (!number) continue;
    const auto [entry, is_new] = result.try_emplace(*number, text);
    if (is_new) continue;
    merged.push_back(fmt::format("{} and {} in '{}'", shown(entry->second), shown(text), column));
    if (text.size() < entry->second.size()) entry->second = text;
  }
  return result;
}

void number_categories(const Vocabulary& found,
                       std::size_t f,
                       ColumnRecord& column,
                       std::size_t columns,
                       TableRows& rows) {
  const auto equals = representatives(found, column.name, rows.merged);
  const auto representative = [&](const std::string& text) {
    const auto number = category_number(text);
    return number ? equals.at(*number) : text;
  };
  std::map<std::string, double> place;
  for (const auto& [text, index] : found) {
    if (representative(text) != text) continue;
    place.emplace(text, double(column.categories.size()));
    column.categories.push_back(text);
  }
  std::vector<double> order(found.size());
  for (const auto& [text, index] : found)
    order[std::size_t(index)] = place.at(representative(text));
  std::vector<double>& values = rows.values;
  renumber(values, f, columns, order);
  // A feature that no row has would be noise in evaluation: nothing trains its weights.
  column.missing_is_category = false;
  for (std::size_t i = f; i < values.size(); i += columns) {
    if (values[i] != kMissingText) continue;
    values[i] = double(column.categories.size());
    column.missing_is_category = true;
  }
}

/// Numbers classes in ascending order: by value where all are numbers, where equal ones are one
/// class, else by name.
std::vector<std::string> number_classes(const Vocabulary& found, std::vector<double>& targets) {
  std::vector<std::pair<std::string, std::int32_t>> labels(found.begin(), found.end());
  const bool numeric = std::ranges::all_of(
      labels, [](const auto& label) { return to_whole(label.first).has_value(); });
  const auto equal = [&](const std::string& a, const std::string& b) {
    return numeric ? *to_whole(a) == *to_whole(b) : a == b;
  };
  if (numeric)
    std::stable_sort(labels.begin(), labels.end(), [](const auto& a, const auto& b) {
      return *to_whole(a.first) < *to_whole(b.first);
    });
  std::vector<std::string> classes;
  std::vector<double> order(labels.size());
  for (const auto& [label, number] : labels) {
    if (classes.empty() || !equal(classes.back(), label)) classes.push_back(label);
    order[std::size_t(number)] = double(classes.size()) - 1;
  }
  renumber(targets, 0, 1, order);
  return classes;
}

}  // namespace

TableRows read_training_rows(RowReader& table,
                             const ColumnRoles& roles,
                             const TableSurvey& survey,
                             bool drops,
                             BadRows& bad,
                             Preprocessing& record) {
  RowParser parser(table, roles, record, &survey, drops);
  TableRows rows = parse_all(table, roles, parser, bad, survey.rows);
  const std::size_t columns = roles.features.size();
  for (std::size_t f = 0; f < columns; ++f) {
    ColumnRecord& column = record.table->columns[f];
    if (column.kind == ColumnRecord::Kind::categorical)
      number_categories(parser.categories()[f], f, column, columns, rows);
  }
  if (record.task != Task::classification) return rows;
  record.class_names = number_classes(parser.classes(), rows.targets);
  const std::string& label = table.header()[roles.labels[0]];
  LOCKSTEP_CHECK(record.class_names.size() >= 2,
                 DataError,
                 "{}: expected at least 2 classes in the {} column ('{}'), got only '{}'",
                 as_written(table.name()),
                 roles.labels[0] + 1 == table.header().size() ? "last" : "label",
                 as_written(label),
                 as_written(record.class_names[0]));
  return rows;
}

TableRows read_rows(RowReader& table,
                    const ColumnRoles& roles,
                    const Preprocessing& trained,
                    bool drops,
                    BadRows& bad) {
  RowParser parser(table, roles, trained, nullptr, drops);
  return parse_all(table, roles, parser, bad, 0);
}

}  // namespace lockstep::data
