// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tests/support/cuda_emulator/runtime_api.h"

namespace lockstep::emulator {

/// Returns `status`, which is now the last error, and `text` what cudaGetErrorString() says of it.
cudaError_t set_status(cudaError_t status, const std::string& text);

}  // namespace lockstep::emulator
