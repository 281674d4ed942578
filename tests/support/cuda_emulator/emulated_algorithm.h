// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/cuda/device/algorithm_key.h"

namespace lockstep::cuda {

/// See LibraryLimits::algorithm.
struct EmulatedAlgorithm {
  int number = 0;

  /// Which of `count` products comes at `step`.
  std::int64_t place(std::int64_t step, std::int64_t count) const {
    return number == 0 ? step : count - 1 - step;
  }
};

/// As the libraries' own code does: what device.algorithms says under `key`, or library_limits(),
/// which is entered there. Nothing where the library is not `able`. Throws EnvironmentError: what
/// is entered cannot run here.
std::optional<EmulatedAlgorithm> choose_emulated(const Device& device,
                                                 const std::string& key,
                                                 bool able,
                                                 const std::string& what);

}  // namespace lockstep::cuda
