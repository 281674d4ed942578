// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "core/data/table/row_reader.h"
#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// A table of more bad rows is the wrong table; each costs many times its text in memory.
inline constexpr std::size_t kMaxBadRows = 100000;

/// The rows of a table that cannot be read and are skipped, over all passes that read it: what one
/// pass finds, the next ones skip.
class BadRows {
 public:
  /// `skips` false: the first bad row is an error.
  explicit BadRows(bool skips) : skips_(skips) {}

  bool skips() const { return skips_; }
  std::size_t size() const { return rows_.size(); }

  /// Reads the next row that is not known to be bad; false at the end. Throws RowError as
  /// RowReader::next() does, unless rows are skipped.
  bool next(RowReader& table);

  /// Calls `read`, which reads or prepares a row; false: it threw RowError, and the row is skipped.
  template <typename Read>
  bool read_row(Read&& read) {
    if (!skips_) {
      read();
      return true;
    }
    try {
      read();
      return true;
    } catch (const RowError& error) {
      add(error);
      return false;
    }
  }

  /// For those who opened the table: how many there are, and what is wrong with the first.
  SkippedRecords records() const;

  /// Throws DataError: all rows of `table` are bad, and there is one.
  [[noreturn]] void refuse_all(const RowReader& table) const;

 private:
  void add(const RowError& error);
  const std::string& first() const { return rows_.begin()->second; }

  bool skips_;
  std::map<std::int64_t, std::string> rows_;  // by the line in which they begin
};

}  // namespace lockstep::data
