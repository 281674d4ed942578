// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::data {

/// A CSV file as read: features as numbers, labels as classes.
struct CsvTable {
  std::int64_t rows = 0;
  std::int64_t features = 0;
  std::vector<std::string> columns;  ///< names of the features
  std::vector<double> values;        ///< [rows, features]
  std::vector<std::int32_t> labels;  ///< [rows], 0..classes-1
  std::vector<std::string> classes;  ///< what the label column says, ascending
};

/// Reads `file`: see csv() in sources.h for the format and the errors. Memory is bounded by a small
/// multiple of the file's size.
CsvTable read_csv(const std::string& file);

}  // namespace lockstep::data
