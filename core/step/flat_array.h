// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

/// One of the flat arrays that a run has to keep: the parameters, one of the optimizer's, or the
/// average of the weights.
struct FlatArray {
  std::string name;         ///< "exp_avg"; empty for the parameters; kAverageName
  float* values = nullptr;  ///< on the device, FlatSpace::elems
  bool owned = false;       ///< of Ownership::elems() instead, those that the rank owns
};

inline constexpr const char* kAverageName = "ema";

}  // namespace lockstep
