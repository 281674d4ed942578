// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/data/input_file.h"
#include "core/data/row_split.h"
#include "core/data/sources.h"
#include "core/data/table/cell.h"
#include "core/data/table/standard.h"
#include "core/data/table/table_dataset.h"

namespace lockstep::data {
namespace {

ColumnRecord new_column(const RowReader& table,
                        std::size_t position,
                        const ColumnSurvey& survey,
                        Missing missing) {
  ColumnRecord column;
  column.name = table.header()[position];
  const bool fills = missing == Missing::mean || missing == Missing::median;
  if (survey.texts == 0) {
    if (fills) column.fill = 0;  // until the training part is known
    return column;
  }
  if (table.separator() != ',' && has_decimal_comma(survey.first_text.value))
    throw DataError(fmt::format("{}:{}:{}: expected a decimal point, got {} (column '{}')",
                                table.name(),
                                survey.first_text.line,
                                position + 1,
                                shown(survey.first_text.value),
                                column.name),
                    "write decimals with a point, as 3.14");
  column.kind = ColumnRecord::Kind::categorical;
  column.missing_is_category = fills || missing == Missing::category;
  return column;
}

/// The record of a table to train on, without what its rows say.
Preprocessing begin_record(const RowReader& table,
                           const ColumnRoles& roles,
                           const TableSurvey& survey,
                           Missing missing,
                           Task task) {
  TableRecord columns;
  columns.separator = table.separator();
  for (std::size_t f = 0; f < roles.features.size(); ++f)
    columns.columns.push_back(new_column(table, roles.features[f], survey.features[f], missing));
  for (const std::size_t label : roles.labels) {
    TargetRecord target;
    target.name = table.header()[label];
    columns.targets.push_back(target);
  }
  for (const std::size_t id : roles.ids) columns.id_columns.push_back(table.header()[id]);
  for (const std::size_t column : roles.dropped) columns.dropped.push_back(table.header()[column]);
  columns.dropped.insert(
      columns.dropped.end(), columns.id_columns.begin(), columns.id_columns.end());
  Preprocessing record;
  record.source = "csv";
  record.task = task;
  record.table = std::move(columns);
  return record;
}

std::string skipped_note(const TableRows& rows) {
  if (rows.skipped == 0) return "";
  return fmt::format(
      "{} row{} with missing values dropped", rows.skipped, rows.skipped == 1 ? "" : "s");
}

void choose_embedded(TableRecord& table, const std::vector<std::string>& one_hot) {
  for (ColumnRecord& column : table.columns)
    column.embedded = column.kind == ColumnRecord::Kind::categorical &&
                      column.category_count() >= kMinEmbeddedCategories &&
                      std::ranges::find(one_hot, column.name) == one_hot.end();
}

/// Fills in what follows from the columns and classes.
void finish_record(const std::string& file, Preprocessing& record) {
  SampleSpec& spec = record.samples;
  spec.embedded = record.table->embedded();
  const std::int64_t features = record.table->features();
  LOCKSTEP_CHECK(
      features > 0, DataError, "{}: expected features, got columns without values", file);
  spec.input = {{features}, DType::f32};
  if (record.task == Task::classification) {
    spec.target = {{}, DType::i32};
    spec.classes = int(record.class_names.size());
    return;
  }
  spec.target = {{std::int64_t(record.table->targets.size())}, DType::f32};
  spec.multi_label = record.task == Task::multi_label;
  if (spec.multi_label)
    for (const TargetRecord& target : record.table->targets)
      record.class_names.push_back(target.name);
}

DataSplit split_to_train(const std::string& file,
                         std::string_view text,
                         const TableOptions& options,
                         double validation_fraction,
                         std::uint64_t seed) {
  RowReader first(file, text, options.separator);
  const ColumnRoles roles = choose_roles(first, options);
  const TableSurvey survey = survey_table(first, roles);
  const TaskChoice choice = choose_task(first, roles, survey, options);
  auto record = std::make_shared<Preprocessing>(
      begin_record(first, roles, survey, options.missing, choice.task));
  RowReader table(file, text, first.separator());
  const TableRows rows =
      read_training_rows(table, roles, survey, options.missing == Missing::drop, *record);
  choose_embedded(*record->table, options.one_hot_columns);
  finish_record(file, *record);
  const auto [train, validation] = split_rows(rows.size(), validation_fraction, seed, file);
  fit_standard(file, rows, train, options.missing, *record);
  std::string note = choice.reason;
  if (rows.skipped > 0) note += (note.empty() ? "" : "; ") + skipped_note(rows);
  DataSplit split;
  split.train = make_table_dataset(table, roles, rows, train, record, note);
  if (!validation.empty())
    split.validation = make_table_dataset(table, roles, rows, validation, record, "");
  return split;
}

/// The rows that are kept for validation, or all where the fraction is 1, as `trained` says.
DataSplit split_to_evaluate(const std::string& file,
                            std::string_view text,
                            const TableOptions& options,
                            double validation_fraction,
                            std::uint64_t seed,
                            const Preprocessing& trained) {
  LOCKSTEP_CHECK(trained.table,
                 ConfigError,
                 "{}: the data are a table, the run was trained on {} data",
                 file,
                 trained.source);
  if (validation_fraction == 0) return {};
  RowReader table(file, text, options.separator, trained.table->separator);
  const ColumnRoles roles = find_roles(table, *trained.table, /*labels_needed=*/true);
  const TableRows rows = read_rows(table, roles, trained, options.missing == Missing::drop);
  std::vector<std::int64_t> chosen(std::size_t(rows.size()));
  std::iota(chosen.begin(), chosen.end(), std::int64_t{0});
  if (validation_fraction != 1)
    chosen = split_rows(rows.size(), validation_fraction, seed, file).validation;
  const auto record = std::make_shared<Preprocessing>(trained);
  return {nullptr, make_table_dataset(table, roles, rows, chosen, record, skipped_note(rows))};
}

}  // namespace

DataSplit csv(const std::string& file,
              const TableOptions& options,
              double validation_fraction,
              std::uint64_t seed,
              const Preprocessing* trained) {
  const std::string text = read_text_file(file, kTableFormat);
  if (trained) return split_to_evaluate(file, text, options, validation_fraction, seed, *trained);
  return split_to_train(file, text, options, validation_fraction, seed);
}

DataSplit csv(const std::string& file, double validation_fraction, std::uint64_t seed) {
  return csv(file, TableOptions{}, validation_fraction, seed);
}

}  // namespace lockstep::data
