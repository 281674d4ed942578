// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/preprocessing.h"

namespace lockstep::data {

/// Rows of a table whose answers are wanted, as a trained model takes them.
struct TableInputs {
  std::vector<float> values;        ///< [rows, features], prepared as the record says
  std::vector<std::int64_t> lines;  ///< [rows], the line in the file that each begins in, from 1
  std::vector<std::string> ids;     ///< [rows], "id1,id2" of the id columns; empty: there are none

  /// A row that the model cannot take; it is in none of the above.
  struct BadRow {
    std::int64_t line = 0;
    std::string reason;
  };
  std::vector<BadRow> bad;  ///< in the order of the file
};

/// The rows of a table as `trained` (of a table) says: its columns are found by name, in any order,
/// others are not looked at, label columns may be missing. `name` is the file's name in messages.
/// A row with a value that the record has no place for is put into `bad`, and the others are read.
/// Memory: the values, one float a feature and row, in addition to a small multiple of the text.
/// Throws DataError: no table at all, a column that is missing, more than kMaxBadRows bad rows;
/// ConfigError: `trained` is not of a table.
TableInputs read_table_inputs(const std::string& name,
                              std::string_view text,
                              const Preprocessing& trained);

}  // namespace lockstep::data
