// SPDX-License-Identifier: Apache-2.0
#include "core/data/table/bad_rows.h"

#include <fmt/format.h>

#include "core/base/parameter_names.h"

namespace lockstep::data {

bool BadRows::next(RowReader& table) {
  for (;;) {
    bool is_row = false;
    if (read_row([&] { is_row = table.next(); }) && (!is_row || !rows_.contains(table.line())))
      return is_row;
  }
}

void BadRows::add(const RowError& error) {
  rows_.try_emplace(error.line(), error.what());
  if (rows_.size() > kMaxBadRows)
    throw DataError(
        fmt::format(
            "more than {} rows cannot be read; the first: {}", kMaxBadRows, as_written(first())),
        "check that this is the right table, and the options for its columns");
}

void BadRows::refuse_all(const RowReader& table) const {
  throw DataError(
      fmt::format("{}: expected samples, got {} row{} that cannot be read; the first: {}",
                  as_written(table.name()),
                  size(),
                  size() == 1 ? "" : "s",
                  as_written(first())),
      kTableFormat);
}

SkippedRecords BadRows::records() const {
  SkippedRecords records;
  records.count = std::int64_t(rows_.size());
  for (const auto& [line, what] : rows_) {
    if (records.first.size() == SkippedRecords::kMaxNamed) break;
    records.first.push_back(what);
  }
  return records;
}

}  // namespace lockstep::data
