// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/data/preprocessing.h"
#include "core/data/table/row_reader.h"
#include "core/data/table/table_options.h"

namespace lockstep::data {

/// What each column of a file is for, as positions in its rows. Columns in none of the lists are
/// not looked at.
struct ColumnRoles {
  std::vector<std::size_t> features, labels, ids, dropped;
};

/// The roles in a table to train on. Throws ConfigError: options that name no column or one twice;
/// DataError: a header of numbers, or without a feature, or with two columns of one name.
ColumnRoles choose_roles(const RowReader& table, const TableOptions& options);

/// The columns of `trained` in another table, by name. Labels are only looked for where they are
/// needed; id columns may be missing, then there are none. Throws DataError: a column that is
/// missing, with the nearest name, or is there twice.
ColumnRoles find_roles(const RowReader& table, const TableRecord& trained, bool labels_needed);

}  // namespace lockstep::data
