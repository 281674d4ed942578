// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <string>
#include <string_view>

namespace lockstep::cuda {

/// Throws for a status that is not success: OutOfMemory where memory is what lacked, Error
/// where a kernel faulted (now or earlier: what is enqueued fails later), otherwise
/// EnvironmentError; the message holds the device, `what`, CUDA's name for the error and its
/// explanation, the hint says what usually causes it.
void check(cudaError_t status, std::string_view what);

}  // namespace lockstep::cuda
