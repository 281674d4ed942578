// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

/// Which CUDA devices this process could use, found out without touching one.
struct DeviceProbe {
  int devices = 0;
  std::string reason;  ///< why there are none: not built, no driver, one too old, none visible
  std::string hint;    ///< what to do about it
};

DeviceProbe probe_cuda();

}  // namespace lockstep
