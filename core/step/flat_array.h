// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

/// One of the flat arrays that a run has to keep: the parameters, or one of the optimizer's.
struct FlatArray {
  std::string name;         ///< "exp_avg"; empty for the parameters
  float* values = nullptr;  ///< on the device, FlatSpace::elems
};

}  // namespace lockstep
