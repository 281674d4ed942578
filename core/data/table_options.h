// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/data/preprocessing.h"

namespace lockstep::data {

/// What to do with a missing value: an empty field, NA, ?, or nan or null in any case. A missing
/// label is refused, unless its row is dropped.
enum class Missing : std::uint8_t {
  error,     ///< it is refused, with row and column
  mean,      ///< of a number: the column's mean in the training part; of a text: as `category`
  median,    ///< of a number: the column's median in the training part; of a text: the same
  drop,      ///< the row is skipped
  category,  ///< of a text: a category of its own; a missing number is refused
};

/// How csv() reads a table. A column is named, or counted from 1 (-1: the last) where no column has
/// that name.
struct TableOptions {
  std::optional<Task> task = {};  ///< empty: chosen by the label columns, see csv()
  /// Empty: the last column that is neither dropped nor an id.
  std::vector<std::string> label_columns = {};
  char separator = '\0';  ///< 0: the comma, semicolon or tab that the header line has most of
  Missing missing = Missing::error;
  std::vector<std::string> dropped = {};     ///< columns that are not looked at
  std::vector<std::string> id_columns = {};  ///< not looked at; they name rows in predictions
  /// Names of columns that stay one-hot, however many categories they have; names that the table
  /// does not have are not looked at.
  std::vector<std::string> one_hot_columns = {};
  /// Features whose values are categories even where they are numbers.
  std::vector<std::string> categorical = {};
  /// Rows that cannot be read are skipped, as if the table did not have them: with quotes that do
  /// not close, too few or too many fields, or a value that its column cannot have.
  bool skips_bad_rows = false;
};

}  // namespace lockstep::data
