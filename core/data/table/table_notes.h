// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/data/table/column_roles.h"
#include "core/data/table/table_rows.h"
#include "core/data/table/table_survey.h"

namespace lockstep::data {

/// What was chosen for the user of a table to train on, and should be said where it is described:
/// the task; a header of numbers; columns of numbers and texts that are categories; texts that are
/// one category, as they are the same number; a class named as a missing value is; rows that were
/// skipped.
std::string training_note(const RowReader& table,
                          const ColumnRoles& roles,
                          const TableSurvey& survey,
                          const TaskChoice& choice,
                          const TableRows& rows,
                          const BadRows& bad,
                          const Preprocessing& record);

/// The same of a table to evaluate on: rows that were skipped.
std::string evaluation_note(const TableRows& rows, const BadRows& bad);

}  // namespace lockstep::data
