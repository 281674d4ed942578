// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/data/table/table_rows.h"
#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// The rows `chosen` of a table as samples, standardised by `record`, which is complete. `note` is
/// the end of describe(): what was chosen for the user, if anything. `skipped`: what
/// skipped_records() says.
/// Throws RowError: a number that standardised features cannot hold.
std::shared_ptr<const Dataset> make_table_dataset(const RowReader& table,
                                                  const ColumnRoles& roles,
                                                  const TableRows& rows,
                                                  const std::vector<std::int64_t>& chosen,
                                                  std::shared_ptr<const Preprocessing> record,
                                                  const std::string& note,
                                                  SkippedRecords skipped = {});

}  // namespace lockstep::data
