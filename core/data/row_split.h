// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::data {

/// Rows to train on and rows kept for validation, both ascending.
struct RowSplit {
  std::vector<std::int64_t> train;
  std::vector<std::int64_t> validation;
};

/// Keeps `fraction` of `rows` rows, chosen by `seed`, for validation. `source` is for messages.
/// Throws ConfigError: a fraction outside [0, 1), or one that leaves a part empty.
RowSplit split_rows(std::int64_t rows,
                    double fraction,
                    std::uint64_t seed,
                    const std::string& source);

}  // namespace lockstep::data
