// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/data/arrays/npy_array.h"
#include "lockstep/data/preprocessing.h"

namespace lockstep::data {

/// The most classes that an array of labels may have.
constexpr std::int64_t kMaxArrayClasses = std::int64_t{1} << 24;

/// What samples of arrays have as targets.
struct ArrayTask {
  Task task = Task::classification;
  std::int64_t width = 1;  ///< numbers or labels of a sample; of a class 1
  int classes = 0;         ///< of a classification: the largest label + 1
  bool is_one_hot = false;

  /// "in 10 classes", "with 14 labels", "and 1 number to predict".
  std::string describe() const;
};

/// What `labels` are. Where `wanted` does not say it:
/// - classification: whole numbers or bool [N] or [N, 1]; or [N, K] of 0 and 1 with a single 1 in
///   each row (one-hot);
/// - multi-label: other [N, K] of 0 and 1;
/// - regression: other floats [N] or [N, K].
/// Throws DataError naming array and index: more than two dimensions, a label that is negative or
/// past kMaxArrayClasses, numbers that are not finite; ConfigError: whole numbers [N, K] that are
/// not 0 and 1, or what `wanted` does not fit.
ArrayTask find_array_task(const NpyArray& labels, std::optional<Task> wanted);

/// The targets of `rows`, which ascend: classes [rows], or [rows, width] numbers. Throws DataError
/// naming array and index: targets that are not of the task, or of another width, or of more than
/// kMaxFileBytes at 8 bytes each.
std::vector<std::int32_t> read_classes(const NpyArray& labels,
                                       const ArrayTask& task,
                                       const std::vector<std::int64_t>& rows);
std::vector<double> read_target_numbers(const NpyArray& labels,
                                        const ArrayTask& task,
                                        const std::vector<std::int64_t>& rows);

}  // namespace lockstep::data
