// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/data/preprocessing.h"
#include "core/data/table/row_parser.h"

namespace lockstep::data {

/// The rows of a table as numbers, not standardised.
struct TableRows {
  std::vector<double> values;        ///< [rows, columns], see RowParser::parse()
  std::vector<double> targets;       ///< [rows, labels]; of a class its number
  std::vector<std::uint32_t> lines;  ///< [rows]
  std::int64_t skipped = 0;          ///< rows with a missing value that were dropped

  std::int64_t size() const { return std::int64_t(lines.size()); }
};

/// Every row behind the header. With a survey, the categories and classes that the rows have
/// are put into `record`, categories sorted by text, classes as csv() says. Throws as
/// RowParser::parse() does; DataError: no row is left, fewer than 2 classes.
TableRows read_training_rows(RowReader& table,
                             const ColumnRoles& roles,
                             const TableSurvey& survey,
                             bool drops,
                             Preprocessing& record);

/// The same by a record that is complete.
TableRows read_rows(RowReader& table,
                    const ColumnRoles& roles,
                    const Preprocessing& trained,
                    bool drops);

}  // namespace lockstep::data
