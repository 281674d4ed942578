// SPDX-License-Identifier: Apache-2.0
#include "core/data/row_split.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/data/sampler.h"

namespace lockstep::data {

RowSplit split_rows(std::int64_t rows,
                    double fraction,
                    std::uint64_t seed,
                    const std::string& source) {
  LOCKSTEP_CHECK(fraction >= 0.0 && fraction < 1.0,
                 ConfigError,
                 "data: expected a validation fraction of at least 0 and below 1, got {}",
                 fraction);
  const auto kept = std::int64_t(std::llround(double(rows) * fraction));
  LOCKSTEP_CHECK(kept < rows && (kept > 0 || fraction == 0.0),
                 ConfigError,
                 "data: a validation fraction of {} of the {} samples of {} leaves {} part empty",
                 fraction,
                 rows,
                 as_written(source),
                 kept == 0 ? "the validation" : "the training");
  Sampler sampler(rows, seed, /*shuffle=*/kept > 0);
  const auto order = sampler.range(0, 0, rows);
  const auto middle = order.begin() + kept;
  RowSplit split{{middle, order.end()}, {order.begin(), middle}};
  std::sort(split.train.begin(), split.train.end());
  std::sort(split.validation.begin(), split.validation.end());
  return split;
}

}  // namespace lockstep::data
