// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

#include "tests/support/cuda_emulator/runtime_api.h"

namespace lockstep::emulator {

/// What a kernel, or other work of a stream, did wrong.
class Fault : public std::runtime_error {
 public:
  Fault(cudaError_t status, const std::string& text) : std::runtime_error(text), status_(status) {}
  cudaError_t status() const { return status_; }

 private:
  cudaError_t status_;
};

/// Returns `status`, which is now the last error, and `text` what cudaGetErrorString() says of it.
cudaError_t set_status(cudaError_t status, const std::string& text);

}  // namespace lockstep::emulator
