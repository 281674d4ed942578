// SPDX-License-Identifier: Apache-2.0
#include "core/data/embedded_column.h"

#include "core/base/check.h"

namespace lockstep::data {

void check_embedded(const SampleSpec& spec) {
  if (spec.embedded.empty()) return;
  const bool row = spec.input.dtype == DType::f32 && spec.input.shape.rank() == 1;
  LOCKSTEP_CHECK(row && spec.scale.empty(),
                 ConfigError,
                 "data: embedded columns are features of samples f32 [features] without scale and "
                 "shift, got {}{}",
                 spec.input.to_string(),
                 spec.scale.empty() ? "" : " with them");
  std::int64_t next = 0;
  for (const EmbeddedColumn& column : spec.embedded) {
    LOCKSTEP_CHECK(column.feature >= next && column.feature < spec.input.shape[0],
                   ConfigError,
                   "data: embedded columns must be listed in ascending order of features below {}, "
                   "each once; got feature {}",
                   spec.input.shape[0],
                   column.feature);
    LOCKSTEP_CHECK(column.categories >= 1 && column.categories <= kMaxEmbeddedCategories,
                   ConfigError,
                   "data: the embedded column of feature {} must have 1 to {} categories, got {}",
                   column.feature,
                   kMaxEmbeddedCategories,
                   column.categories);
    next = column.feature + 1;
  }
}

}  // namespace lockstep::data
