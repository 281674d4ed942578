// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/data/embedded_column.h"
#include "core/data/input_file.h"
#include "core/data/row_split.h"
#include "core/data/table/cell.h"
#include "core/data/table/row_encoder.h"
#include "core/data/table/standard.h"
#include "core/data/table/table_dataset.h"
#include "core/data/table/table_notes.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {
namespace {

ColumnRecord new_column(const RowReader& table,
                        std::size_t position,
                        const ColumnSurvey& survey,
                        const TableOptions& options,
                        bool is_declared) {
  ColumnRecord column;
  column.name = table.header()[position];
  const bool fills = options.missing == Missing::mean || options.missing == Missing::median;
  const bool has_stray_texts = survey.has_stray_texts() && !is_declared;
  if ((survey.texts == 0 && !is_declared) || (has_stray_texts && options.skips_bad_rows)) {
    if (fills) column.fill = 0;  // until the training part is known
    return column;
  }
  if (table.separator() != ',' && !is_declared && has_decimal_comma(survey.first_text.value))
    throw DataError(fmt::format("{}:{}:{}: expected a decimal point, got {} (column '{}')",
                                as_written(table.name()),
                                survey.first_text.line,
                                position + 1,
                                as_written(shown(survey.first_text.value)),
                                as_written(column.name)),
                    "write decimals with a point, as 3.14");
  if (has_stray_texts) refuse_text(table, position, survey);
  column.kind = ColumnRecord::Kind::categorical;
  column.missing_is_category = fills || options.missing == Missing::category;
  return column;
}

/// The record of a table to train on, without what its rows say.
Preprocessing begin_record(const RowReader& table,
                           const ColumnRoles& roles,
                           const TableSurvey& survey,
                           const TableOptions& options,
                           Task task) {
  TableRecord columns;
  columns.separator = table.separator();
  for (std::size_t f = 0; f < roles.features.size(); ++f)
    columns.columns.push_back(new_column(table,
                                         roles.features[f],
                                         survey.features[f],
                                         options,
                                         roles.is_categorical(roles.features[f])));
  for (const std::size_t label : roles.labels) {
    TargetRecord target;
    target.name = table.header()[label];
    columns.targets.push_back(target);
  }
  for (const std::size_t id : roles.ids) columns.id_columns.push_back(table.header()[id]);
  for (const std::size_t column : roles.dropped) columns.dropped.push_back(table.header()[column]);
  columns.dropped.insert(
      columns.dropped.end(), columns.id_columns.begin(), columns.id_columns.end());
  columns.named_alike = columns_named_alike(table, roles);
  Preprocessing record;
  record.source = "csv";
  record.task = task;
  record.table = std::move(columns);
  return record;
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
  LOCKSTEP_CHECK(features > 0,
                 DataError,
                 "{}: expected features, got columns without values",
                 as_written(file));
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

/// A table to train on, prepared.
struct Preparation {
  ColumnRoles roles;
  TableSurvey survey;
  TaskChoice choice;
  std::shared_ptr<Preprocessing> record;
  TableRows rows;
  RowSplit split;
};

/// Whether all values can be standardised by `record`; rows of which one cannot go to `bad`.
bool can_standardise(const std::string& file,
                     const ColumnRoles& roles,
                     const TableRows& rows,
                     const Preprocessing& record,
                     BadRows& bad) {
  const TableRecord& table = *record.table;
  const std::size_t columns = table.columns.size(), labels = table.targets.size();
  const RowEncoder encoder(file, roles, table);
  std::vector<float> row(std::max(columns, labels));
  bool can = true;
  for (std::size_t i = 0; i < rows.lines.size(); ++i)
    can &= bad.read_row([&] {
      encoder.standardise(rows.values.data() + i * columns, rows.lines[i], row.data());
      if (record.task != Task::classification)
        encoder.standardise_targets(rows.targets.data() + i * labels, rows.lines[i], row.data());
    });
  return can;
}

/// One pass over a table, from the kinds of its columns to their mean and deviation. False: it
/// found more bad rows, so that all of it may be otherwise.
bool prepare(const std::string& file,
             std::string_view text,
             const TableOptions& options,
             double validation_fraction,
             std::uint64_t seed,
             BadRows& bad,
             Preparation& result) {
  RowReader surveyed(file, text, options.separator);
  result.roles = choose_roles(surveyed, options);
  result.survey = survey_table(surveyed, result.roles, bad);
  const std::size_t known = bad.size();
  result.choice = choose_task(surveyed, result.roles, result.survey, options);
  result.record = std::make_shared<Preprocessing>(
      begin_record(surveyed, result.roles, result.survey, options, result.choice.task));
  RowReader table(file, text, surveyed.separator());
  const bool drops = options.missing == Missing::drop;
  result.rows = read_training_rows(table, result.roles, result.survey, drops, bad, *result.record);
  if (bad.size() > known) return false;
  choose_embedded(*result.record->table, options.one_hot_columns);
  finish_record(file, *result.record);
  result.split = split_rows(result.rows.size(), validation_fraction, seed, file);
  fit_standard(file, result.rows, result.split.train, options.missing, *result.record);
  return !bad.skips() || can_standardise(file, result.roles, result.rows, *result.record, bad);
}

DataSplit split_to_train(const std::string& file,
                         std::string_view text,
                         const TableOptions& options,
                         double validation_fraction,
                         std::uint64_t seed) {
  constexpr int kMaxPasses = 16;
  BadRows bad(options.skips_bad_rows);
  Preparation prepared;
  int passes = 1;
  while (!prepare(file, text, options, validation_fraction, seed, bad, prepared))
    LOCKSTEP_CHECK(++passes <= kMaxPasses,
                   DataError,
                   "{}: in each of {} passes other rows cannot be read; the first of all: {}",
                   as_written(file),
                   kMaxPasses,
                   as_written(bad.records().first[0]));
  const RowReader table(file, text, options.separator);
  const auto& [roles, survey, choice, record, rows, parts] = prepared;
  const std::string note = training_note(table, roles, survey, choice, rows, bad, *record);
  DataSplit split;
  split.train = make_table_dataset(table, roles, rows, parts.train, record, note, bad.records());
  if (!parts.validation.empty())
    split.validation = make_table_dataset(table, roles, rows, parts.validation, record, "");
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
                 as_written(file),
                 trained.source);
  if (validation_fraction == 0) return {};
  BadRows bad(options.skips_bad_rows);
  const RowReader table(file, text, options.separator, trained.table->separator);
  const ColumnRoles roles = find_roles(table, *trained.table, /*labels_needed=*/true);
  const auto read = [&] {
    RowReader reader = table;
    return read_rows(reader, roles, trained, options.missing == Missing::drop, bad);
  };
  TableRows rows = read();
  // Before the split: training did not split those rows either.
  if (bad.skips() && !can_standardise(file, roles, rows, trained, bad)) rows = read();
  std::vector<std::int64_t> chosen(std::size_t(rows.size()));
  std::iota(chosen.begin(), chosen.end(), std::int64_t{0});
  if (validation_fraction != 1)
    chosen = split_rows(rows.size(), validation_fraction, seed, file).validation;
  const auto record = std::make_shared<Preprocessing>(trained);
  return {nullptr,
          make_table_dataset(
              table, roles, rows, chosen, record, evaluation_note(rows, bad), bad.records())};
}

}  // namespace

DataSplit csv(const std::string& file,
              const TableOptions& options,
              double validation_fraction,
              std::uint64_t seed,
              const Preprocessing* trained) {
  const std::string text = read_text_file(file, kTableFormat);
  try {
    return trained ? split_to_evaluate(file, text, options, validation_fraction, seed, *trained)
                   : split_to_train(file, text, options, validation_fraction, seed);
  } catch (const RowError& error) {
    if (!error.hint().empty() || options.skips_bad_rows) throw;
    throw DataError(as_written(error.what()),
                    "correct the row, or skip such rows with `skip_bad_samples`");
  }
}

DataSplit csv(const std::string& file, double validation_fraction, std::uint64_t seed) {
  return csv(file, TableOptions{}, validation_fraction, seed);
}

}  // namespace lockstep::data
