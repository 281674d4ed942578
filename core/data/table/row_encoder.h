// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "core/data/table/column_roles.h"

namespace lockstep::data {

/// Makes a model's input of the values that RowParser reads. In between they are one float a
/// column: a standardised number, or the number of a category.
class RowEncoder {
 public:
  /// `name` is the file's; all of them have to outlive the encoder.
  RowEncoder(const std::string& name, const ColumnRoles& roles, const TableRecord& record)
      : name_(name), roles_(roles), record_(record) {}

  /// Writes [columns] floats of the [columns] values of a row: (value - mean) / deviation of a
  /// number, of which a missing one is the record's `fill`. Throws RowError: one that no float can
  /// hold.
  void standardise(const double* values, std::int64_t line, float* result) const;

  /// Writes [labels] floats, (value - mean) / deviation. Throws as standardise().
  void standardise_targets(const double* values, std::int64_t line, float* result) const;

 private:
  const std::string& name_;
  const ColumnRoles& roles_;
  const TableRecord& record_;
};

/// Writes [features] floats of the [columns] floats of a row: of a category 1, of the others of its
/// column 0; of an embedded column the index as it is.
void expand_categories(const TableRecord& record, const float* row, float* features);

}  // namespace lockstep::data
