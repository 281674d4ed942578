// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "core/data/table/row_reader.h"
#include "lockstep/data/preprocessing.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {

/// What each column of a file is for, as positions in its rows. Columns in none of the lists are
/// not looked at.
struct ColumnRoles {
  std::vector<std::size_t> features, labels, ids, dropped;
  std::vector<std::size_t> categorical;  ///< features that options say hold categories

  bool is_categorical(std::size_t column) const {
    return std::ranges::find(categorical, column) != categorical.end();
  }
};

/// The roles in a table to train on, before its first row is read. Throws ConfigError: options that
/// name no column, one twice, or as categorical one that is not a feature; DataError: a header of
/// numbers, or without a feature, or with two used columns of one name.
///
/// Numbers are names of features where the header counts 0, 1, 2, ... , as pandas writes it, or has
/// a name that is not a number and is not in the column below it, as a value would.
ColumnRoles choose_roles(const RowReader& table, const TableOptions& options);

/// Whether the names of all `features` are numbers.
bool has_numbered_features(const RowReader& table, const std::vector<std::size_t>& features);

/// Which of the columns that share their name each used column is, for TableRecord::named_alike.
std::map<std::string, NamedAlike> columns_named_alike(const RowReader& table,
                                                      const ColumnRoles& roles);

/// The columns of `trained` in another table, by name. Of several columns of one name, as many as
/// in training, the one in the same place among them. Labels are only looked for where they are
/// needed; id columns may be missing, then there are none. Throws DataError: a column that is
/// missing, with the nearest name, or of whose name there are several otherwise.
ColumnRoles find_roles(const RowReader& table, const TableRecord& trained, bool labels_needed);

}  // namespace lockstep::data
