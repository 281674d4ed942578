// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/data/table/bad_rows.h"
#include "core/data/table/column_roles.h"
#include "core/data/table/table_survey.h"
#include "lockstep/data/preprocessing.h"

namespace lockstep::data {

/// The rows of a table as numbers, not standardised.
struct TableRows {
  std::vector<double> values;        ///< [rows, columns], see RowParser::parse()
  std::vector<double> targets;       ///< [rows, labels]; of a class its number
  std::vector<std::uint32_t> lines;  ///< [rows]
  std::int64_t skipped = 0;          ///< rows with a missing value that were dropped
  /// Numbers that a column has in several ways, which are one category: "'1' and '1.0' in 'size'".
  std::vector<std::string> merged;

  std::int64_t size() const { return std::int64_t(lines.size()); }
};

/// Every row after the header but those that are bad. With a survey, the categories and classes
/// that the rows have are put into `record`, categories sorted by text, those that are the same
/// number as one, under the shortest of their texts; classes as csv() says. Throws as
/// RowParser::parse() does, RowError unless rows are skipped; DataError: no row is left, fewer than
/// 2 classes.
TableRows read_training_rows(RowReader& table,
                             const ColumnRoles& roles,
                             const TableSurvey& survey,
                             bool drops,
                             BadRows& bad,
                             Preprocessing& record);

/// The same by a record that is complete.
TableRows read_rows(RowReader& table,
                    const ColumnRoles& roles,
                    const Preprocessing& trained,
                    bool drops,
                    BadRows& bad);

}  // namespace lockstep::data
