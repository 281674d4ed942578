// SPDX-License-Identifier: Apache-2.0
#include "core/data/table/column_roles.h"

#include <algorithm>
#include <charconv>
#include <fmt/ranges.h>
#include <map>
#include <optional>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/text/suggest.h"
#include "core/base/text/utf8.h"
#include "core/data/table/cell.h"

namespace lockstep::data {
namespace {

std::string nearest_column(const std::string& name, const std::vector<std::string>& header) {
  const std::vector<std::string_view> names(header.begin(), header.end());
  const std::string near = nearest(name, names);
  if (!near.empty()) return fmt::format("did you mean '{}'?", as_written(near));
  constexpr std::size_t kMaxListed = 20;
  const auto listed = std::min(names.size(), kMaxListed);
  return as_written(
      fmt::format("its columns are {}{}",
                  fmt::join(names.begin(), names.begin() + std::ptrdiff_t(listed), ", "),
                  listed < names.size() ? ", ..." : ""));
}

/// The column that a user's `text` means: by name, or else counted from 1, or from -1 backwards.
std::size_t chosen_column(const RowReader& table, const std::string& text, const char* option) {
  const std::vector<std::string>& header = table.header();
  const auto found = std::find(header.begin(), header.end(), text);
  if (found != header.end()) {
    if (std::find(found + 1, header.end(), text) != header.end())
      throw ConfigError(fmt::format("{}: {} '{}' names more than one column",
                                    as_written(table.name()),
                                    option,
                                    as_written(text)),
                        "give the column's index, counted from 1");
    return std::size_t(found - header.begin());
  }
  std::int64_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto columns = std::int64_t(header.size());
  if (status == std::errc{} && end == text.data() + text.size()) {
    if (number >= 1 && number <= columns) return std::size_t(number - 1);
    if (number < 0 && number >= -columns) return std::size_t(columns + number);
  }
  throw ConfigError(
      fmt::format(
          "{}: {} '{}': no such column", as_written(table.name()), option, as_written(text)),
      nearest_column(text, header));
}

/// Which option took a column; empty: none.
using Takers = std::vector<std::string>;

std::vector<std::size_t> take(const RowReader& table,
                              const std::vector<std::string>& texts,
                              const char* option,
                              Takers& takers) {
  std::vector<std::size_t> columns;
  for (const std::string& text : texts) {
    const std::size_t column = chosen_column(table, text, option);
    LOCKSTEP_CHECK(takers[column].empty(),
                   ConfigError,
                   "{}: {} '{}': column '{}' was named by {} already",
                   as_written(table.name()),
                   option,
                   as_written(text),
                   as_written(table.header()[column]),
                   takers[column]);
    takers[column] = option;
    columns.push_back(column);
  }
  return columns;
}

/// How an option says a column by its place: backwards where a column is named so.
std::string place_text(const std::vector<std::string>& header, std::size_t column) {
  const std::string place = std::to_string(column + 1);
  const bool is_name = std::find(header.begin(), header.end(), place) != header.end();
  return is_name ? std::to_string(std::int64_t(column) - std::int64_t(header.size())) : place;
}

/// Names that are used have to tell columns apart, and to be what the record keeps.
void check_names(const RowReader& table, const std::vector<std::size_t>& used) {
  std::map<std::string_view, std::size_t> position;
  for (const std::size_t column : used) {
    const std::string& name = table.header()[column];
    const auto [other, is_new] = position.try_emplace(name, column);
    if (!is_new)
      throw DataError(
          fmt::format("{}:1: columns {} and {} are both named '{}'",
                      as_written(table.name()),
                      other->second + 1,
                      column + 1,
                      as_written(name)),
          fmt::format("rename one, or drop it with `drop` {}", place_text(table.header(), column)));
    if (!is_utf8(name))
      throw DataError(fmt::format("{}:1:{}: expected a name in UTF-8, got '{}'",
                                  as_written(table.name()),
                                  column + 1,
                                  as_written(name)),
                      kNotUtf8Hint);
  }
}

/// Whether the names that are there count 0, 1, 2, ...
bool counts_from_0(const std::vector<std::string>& header) {
  std::size_t next = 0;
  for (const std::string& name : header)
    if (!name.empty() && name != std::to_string(next++)) return false;
  return next > 0;
}

/// Of a first line whose features' names are numbers: whether it is a header all the same.
bool is_header(const RowReader& table) {
  const std::vector<std::string>& header = table.header();
  if (counts_from_0(header)) return true;
  std::vector<std::size_t> named;
  for (std::size_t column = 0; column < header.size(); ++column)
    if (!is_missing(header[column]) && !to_number(header[column])) named.push_back(column);
  if (named.empty()) return false;
  constexpr int kMaxBad = 1000;
  int bad = 0;  // they are named when the rows are read
  for (RowReader rows = table; bad < kMaxBad;) {
    try {
      if (!rows.next()) return true;
    } catch (const RowError&) {
      ++bad;
      continue;
    }
    if (std::ranges::any_of(
            named, [&](std::size_t column) { return rows.fields()[column] == header[column]; }))
      return false;
  }
  return true;
}

void check_features(const RowReader& table, const std::vector<std::size_t>& features) {
  const std::vector<std::string>& header = table.header();
  if (features.empty())
    throw DataError(
        fmt::format("{}:1: expected at least one feature and the class, got {} '{}'",
                    as_written(table.name()),
                    header.size() == 1 ? "one column" : "no feature in addition to label column",
                    as_written(header.back())),
        kTableFormat);
  if (has_numbered_features(table, features) && !is_header(table))
    throw DataError(fmt::format("{}:1: expected a header line with the columns' names, got numbers",
                                as_written(table.name())),
                    "put a line with names in front; numbers are names where they count 0, 1, 2, "
                    "..., or next to a name that is not in the rows");
}

/// Columns by name.
class ColumnIndex {
 public:
  ColumnIndex(const RowReader& table, const TableRecord& trained)
      : table_(table), trained_(trained) {
    for (std::size_t column = 0; column < table.header().size(); ++column)
      positions_[table.header()[column]].push_back(column);
  }

  std::optional<std::size_t> find(const std::string& name) const {
    const auto found = positions_.find(name);
    if (found == positions_.end()) return std::nullopt;
    const std::vector<std::size_t>& positions = found->second;
    // The dropped ones may be gone.
    if (positions.size() == 1) return positions[0];
    const auto alike = trained_.named_alike.find(name);
    const NamedAlike of = alike == trained_.named_alike.end() ? NamedAlike{} : alike->second;
    if (positions.size() == std::size_t(of.columns)) return positions[std::size_t(of.place) - 1];
    throw DataError(
        fmt::format("{}:1: more than one column is named '{}', which the model was trained on",
                    as_written(table_.name()),
                    as_written(name)),
        of.columns == 1
            ? "rename or remove the others"
            : fmt::format("the training table had {}, and the model uses the one at index {}",
                          of.columns,
                          of.place));
  }
  std::size_t at(const std::string& name, const char* kind) const {
    const auto column = find(name);
    if (!column)
      throw DataError(fmt::format("{}:1: expected the {} column '{}', which the model was trained "
                                  "on; no column has that name",
                                  as_written(table_.name()),
                                  kind,
                                  as_written(name)),
                      nearest_column(name, table_.header()));
    return *column;
  }

 private:
  const RowReader& table_;
  const TableRecord& trained_;
  std::map<std::string_view, std::vector<std::size_t>> positions_;
};

/// The features that `options` says hold categories.
std::vector<std::size_t> choose_categorical(const RowReader& table,
                                            const TableOptions& options,
                                            const std::vector<std::size_t>& features) {
  std::vector<std::size_t> columns;
  for (const std::string& text : options.categorical) {
    const std::size_t column = chosen_column(table, text, "`categorical`");
    LOCKSTEP_CHECK(std::ranges::find(features, column) != features.end(),
                   ConfigError,
                   "{}: `categorical` '{}': column '{}' is not a feature",
                   as_written(table.name()),
                   as_written(text),
                   as_written(table.header()[column]));
    columns.push_back(column);
  }
  return columns;
}

}  // namespace

ColumnRoles choose_roles(const RowReader& table, const TableOptions& options) {
  const std::size_t columns = table.header().size();
  Takers takers(columns);
  ColumnRoles roles;
  roles.dropped = take(table, options.dropped, "`drop`", takers);
  roles.ids = take(table, options.id_columns, "`id_column`", takers);
  roles.labels = take(table, options.label_columns, "`label_column`", takers);
  for (std::size_t column = columns; roles.labels.empty() && column-- > 0;) {
    if (!takers[column].empty()) continue;
    takers[column] = "the rule that the label is last";
    roles.labels.push_back(column);
  }
  for (std::size_t column = 0; column < columns; ++column)
    if (takers[column].empty()) roles.features.push_back(column);
  check_features(table, roles.features);
  std::vector<std::size_t> used = roles.features;
  used.insert(used.end(), roles.labels.begin(), roles.labels.end());
  used.insert(used.end(), roles.ids.begin(), roles.ids.end());
  check_names(table, used);
  roles.categorical = choose_categorical(table, options, roles.features);
  return roles;
}

bool has_numbered_features(const RowReader& table, const std::vector<std::size_t>& features) {
  return std::ranges::all_of(
      features, [&](std::size_t column) { return to_number(table.header()[column]).has_value(); });
}

std::map<std::string, NamedAlike> columns_named_alike(const RowReader& table,
                                                      const ColumnRoles& roles) {
  const std::vector<std::string>& header = table.header();
  std::map<std::string_view, int> columns;
  for (const std::string& name : header) ++columns[name];
  std::map<std::string, NamedAlike> result;
  const auto note = [&](std::size_t column) {
    const std::string& name = header[column];
    if (columns[name] == 1) return;
    const auto before = std::count(header.begin(), header.begin() + std::ptrdiff_t(column), name);
    result[name] = {int(before) + 1, columns[name]};
  };
  for (const auto* used : {&roles.features, &roles.labels, &roles.ids})
    std::ranges::for_each(*used, note);
  return result;
}

ColumnRoles find_roles(const RowReader& table, const TableRecord& trained, bool labels_needed) {
  const ColumnIndex columns(table, trained);
  ColumnRoles roles;
  for (const ColumnRecord& column : trained.columns)
    roles.features.push_back(columns.at(column.name, "feature"));
  for (const TargetRecord& target : trained.targets)
    if (labels_needed) roles.labels.push_back(columns.at(target.name, "label"));
  for (const std::string& name : trained.id_columns)
    if (const auto column = columns.find(name)) roles.ids.push_back(*column);
  if (roles.ids.size() < trained.id_columns.size()) roles.ids.clear();
  return roles;
}

}  // namespace lockstep::data
