// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/data/table/table_rows.h"
#include "lockstep/data/preprocessing.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {

/// What a column of numbers is standardised by.
struct Standard {
  double mean = 0;
  double deviation = 1;  ///< 1 of a constant column
};

/// Mean and deviation of `count` numbers that pass by three times in the same order: all go into
/// the mean, then all into the largest distance from it, then all into the sum of squares.
class StandardFit {
 public:
  explicit StandardFit(std::int64_t count) : count_(double(count)) {}
  void add_to_mean(double value);
  void add_distance(double value);
  void add_share(double value);
  Standard standard() const;

 private:
  double count_;
  double mean_ = 0, largest_ = 0, share_ = 0;
};

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
