// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/data/table/table_rows.h"
#include "lockstep/preprocessing.h"
#include "lockstep/sources.h"

namespace lockstep::data {

/// Puts into `record` what the rows `train` say: of numeric columns what stands for a missing
/// value, then mean and deviation of the column with it (a constant one has deviation 1); of
/// regression's targets mean and deviation. `name` is the table's. Throws DataError: a column of
/// missing values alone.
void fit_standard(const std::string& name,
                  const TableRows& rows,
                  const std::vector<std::int64_t>& train,
                  Missing missing,
                  Preprocessing& record);

}  // namespace lockstep::data
