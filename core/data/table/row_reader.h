// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/parameter_names.h"
#include "lockstep/error.h"

namespace lockstep::data {

/// A hint of errors: what a table is.
inline constexpr const char* kTableFormat =
    "a header line, then one line a sample, fields separated by commas, semicolons or tabs; the "
    "label in the last column, or where `label_column` says";

/// The record of a run is UTF-8, so names in a table have to be.
inline constexpr const char* kNotUtf8Hint =
    "convert the file, as with: iconv -f LATIN1 -t UTF-8 FILE";

/// Most columns of a table, and most features that its columns become: one costs many times its
/// text in memory.
inline constexpr std::size_t kMaxColumns = 65536;

/// One row that is not as expected; the rows after it can still be read. What `reason` and `hint`
/// have of the table is as_written().
class RowError : public DataError {
 public:
  RowError(const std::string& place,
           std::int64_t line,
           const std::string& reason,
           const std::string& hint)
      : DataError(as_written(place) + ": " + reason, hint),
        line_(line),
        reason_(name_parameters(reason)) {}
  std::int64_t line() const { return line_; }
  const std::string& reason() const { return reason_; }  ///< the message without its place

 private:
  std::int64_t line_;
  std::string reason_;
};

/// Splits a table into rows of fields (RFC 4180): quoted fields may hold separators, line ends and
/// doubled quotes; lines end with LF or CR LF; blanks around a field do not count, nor do blank
/// lines at the end and a byte order mark. Its first row is the header.
/// Source: Shafranovich, "Common Format and MIME Type for CSV Files", RFC 4180, 2005.
class RowReader {
 public:
  /// `name` is for messages; `text` has to outlive the reader. Separator 0: the one of comma,
  /// semicolon, tab and `also` (0: none) that stands most often in the header, the first of equals.
  /// Throws DataError: no header, a NUL.
  RowReader(std::string name, std::string_view text, char separator, char also = '\0');

  const std::string& name() const { return name_; }
  char separator() const { return separator_; }
  const std::vector<std::string>& header() const { return header_; }

  /// Reads the next row; false at the end. Throws RowError: quotes that do not close, a CR without
  /// LF, more or fewer fields than the header. The next call continues after the row. Where a quote
  /// is wrong, its row ends with the line in which the quote opened, if
  /// - no quote closes it, or
  /// - a quote closes it in a later line, but the line after it is a row on its own, of as many
  ///   fields as the header;
  /// otherwise with the line of the quote that closes it.
  bool next();

  /// Of the row that was read last. Valid until the next call.
  std::span<const std::string_view> fields() const { return fields_; }
  std::int64_t line() const { return line_; }  ///< the one it begins in, from 1

  /// "NAME:LINE:FIELD" of the row that was read last; `field` is counted from 0.
  std::string place(std::size_t field) const;
  /// Throws RowError: "NAME:LINE:FIELD: expected ..., got ... (column '...')".
  [[noreturn]] void fail(std::size_t field,
                         std::string_view expected,
                         std::string_view came,
                         std::string hint = {}) const;

 private:
  void split_row();
  std::string_view plain_field();
  std::string_view quoted_field();
  [[noreturn]] void fail_quote(std::size_t begin, std::size_t end);
  bool is_row_alone(std::size_t begin) const;
  std::string extent() const;
  void end_row();
  void skip_blanks();
  bool at_row_end() const;

  std::string name_;
  std::string_view text_;
  std::size_t at_ = 0;
  char separator_;
  std::int64_t line_ = 0, next_line_ = 1;
  std::int64_t last_line_ = 0;  // that the row ends in, once it has been read
  std::vector<std::string> header_;
  std::vector<std::string_view> fields_;
  std::deque<std::string> unescaped_;  // fields with doubled quotes, of the row
};

}  // namespace lockstep::data
