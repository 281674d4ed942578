// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "core/ops/norms/batch_norm.h"
#include "kernels/cpu/elementwise.h"

namespace lockstep::cpu {

/// How a micro-batch [samples, ..., channels] falls into groups; see core/ops/norms/batch_norm.h.
struct BatchNormGroups {
  BatchNormGroups(const Shape& x, std::int64_t size)
      : samples(x[0]),
        positions(x.rank() == 4 ? x[1] * x[2] : 1),
        channels(x[-1]),
        group_size(size == 0 ? samples : size),
        count(ops::batch_norm_groups(samples, size)) {}

  std::int64_t samples_in(std::int64_t group) const {
    return std::min(group_size, samples - group * group_size);
  }
  std::int64_t rows_in(std::int64_t group) const { return samples_in(group) * positions; }
  std::int64_t elems_in(std::int64_t group) const { return rows_in(group) * channels; }
  /// Element where a group starts.
  std::int64_t offset(std::int64_t group) const {
    return group * group_size * positions * channels;
  }
  /// Rows read as one, so that columns fill vectors: Note [Sums over the samples of a batch-norm
  /// group].
  std::int64_t fold(std::int64_t rows) const {
    return std::clamp<std::int64_t>((64 + channels - 1) / std::max<std::int64_t>(channels, 1),
                                    1,
                                    std::max<std::int64_t>(rows, 1));
  }
  std::int64_t max_columns() const { return channels * fold(rows_in(0)); }
  std::int64_t pattern_columns() const { return channels * pattern_repeats(channels); }

  std::int64_t samples, positions, channels, group_size, count;
};

/// Repeats the first `channels` values until `columns` are filled.
inline void repeat_pattern(float* pattern, std::int64_t channels, std::int64_t columns) {
  for (std::int64_t i = channels; i < columns; ++i) pattern[i] = pattern[i - channels];
}

inline void set_or_add(float& to, double value, bool add) {
  to = add ? to + float(value) : float(value);
}

}  // namespace lockstep::cpu
