// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/data/table/bad_rows.h"
#include "core/data/table/column_roles.h"
#include "lockstep/data/preprocessing.h"

namespace lockstep::data {

/// What a column holds, over all rows.
struct ColumnSurvey {
  /// A value and its line; line 0: there is none.
  struct Place {
    std::int64_t line = 0;
    std::string value;
  };
  std::int64_t numbers = 0, texts = 0, missing = 0;
  Place first_text;  ///< the first value that is not a number

  /// Whether its texts are most likely mistakes among numbers: there is but one, in addition to at
  /// least two numbers, or at most a tenth of its values are texts.
  bool has_stray_texts() const {
    return texts > 0 && ((texts == 1 && numbers >= 2) || 10 * texts <= numbers + texts);
  }
};

struct LabelSurvey : ColumnSurvey {
  static constexpr std::size_t kMaxDistinct = 65536;
  Place first_decimal;           ///< the first number that is not whole
  std::set<std::int64_t> whole;  ///< its different whole numbers, at most kMaxDistinct + 1 of them
};

struct TableSurvey {
  std::int64_t rows = 0;
  std::vector<ColumnSurvey> features;  ///< in the order of the roles
  std::vector<LabelSurvey> labels;
};

/// Reads `table` to its end, but for rows that are bad. Throws RowError as BadRows::next();
/// DataError: no rows.
TableSurvey survey_table(RowReader& table, const ColumnRoles& roles, BadRows& bad);

/// Throws DataError: column `field` holds numbers, and texts that are most likely mistakes; names
/// the first.
[[noreturn]] void refuse_text(const RowReader& table,
                              std::size_t field,
                              const ColumnSurvey& column);

struct TaskChoice {
  Task task = Task::classification;
  std::string reason;  ///< "classification: 'kind' holds names"; empty: the user chose it
};

/// The task of a table: options.task, or by its label columns:
/// - several: multi-label where all hold 0 and 1 alone, else regression;
/// - one: classification where some value is not a number, unless that is a stray text among
/// numbers
///   that are not whole or of more than 20 different values; regression where some number is not
///   whole;
///   classification where there are at most 20 different whole numbers, of 5 rows each on average,
///   or where they are 0 to K-1, K <= 20 or of 5 rows each on average.
/// Throws ConfigError where none of it holds, or options.task is of no table or of another number
/// of columns; DataError: a text among several label columns.
TaskChoice choose_task(const RowReader& table,
                       const ColumnRoles& roles,
                       const TableSurvey& survey,
                       const TableOptions& options);

}  // namespace lockstep::data
