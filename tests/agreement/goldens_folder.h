// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <string>

namespace lockstep::test {

/// Where PyTorch's values lie: GPU_TEST_GOLDENS, which an unpacked bundle of tests/gpu says, or the
/// folder of the source that this was built from.
inline std::string goldens_folder() {
  const char* folder = std::getenv("GPU_TEST_GOLDENS");
  return folder != nullptr ? folder : LOCKSTEP_GOLDENS;
}

}  // namespace lockstep::test
