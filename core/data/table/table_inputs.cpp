// SPDX-License-Identifier: Apache-2.0
#include "core/data/table/table_inputs.h"

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/data/table/row_encoder.h"
#include "core/data/table/row_parser.h"

namespace lockstep::data {
namespace {

std::string id_of(const RowReader& table, const std::vector<std::size_t>& columns) {
  std::string id;
  for (const std::size_t column : columns) {
    if (column != columns[0]) id += ',';
    id += table.fields()[column];
  }
  return id;
}

}  // namespace

TableInputs read_table_inputs(const std::string& name,
                              std::string_view text,
                              const Preprocessing& trained) {
  LOCKSTEP_CHECK(trained.table,
                 ConfigError,
                 "{}: the data are a table, the run was trained on {} data",
                 as_written(name),
                 trained.source);
  const TableRecord& record = *trained.table;
  RowReader table(name, text, '\0', record.separator);
  const ColumnRoles roles = find_roles(table, record, /*labels_needed=*/false);
  RowParser parser(table, roles, trained, nullptr, /*drops=*/false);
  const RowEncoder encoder(name, roles, record);
  const auto features = std::size_t(record.features());
  std::vector<double> values(record.columns.size());
  std::vector<float> row(record.columns.size());
  TableInputs inputs;
  for (;;) {
    try {
      if (!table.next()) break;
      parser.parse(values.data(), nullptr);
      encoder.standardise(values.data(), table.line(), row.data());
    } catch (const RowError& error) {
      if (inputs.bad.size() == kMaxBadRows)
        throw DataError(fmt::format("{}: more than {} rows do not fit the model; line {}: {}",
                                    as_written(name),
                                    kMaxBadRows,
                                    inputs.bad[0].line,
                                    as_written(inputs.bad[0].reason)),
                        "check that this is a table for this model");
      inputs.bad.push_back({error.line(), error.reason()});
      continue;
    }
    inputs.values.resize(inputs.values.size() + features);
    expand_categories(record, row.data(), inputs.values.data() + inputs.values.size() - features);
    inputs.lines.push_back(table.line());
    if (!roles.ids.empty()) inputs.ids.push_back(id_of(table, roles.ids));
  }
  if (inputs.lines.empty() && inputs.bad.empty())
    throw DataError(as_written(name) + ": expected rows, got only a header line", kTableFormat);
  return inputs;
}

}  // namespace lockstep::data
