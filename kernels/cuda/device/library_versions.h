// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::cuda {

/// "CUDA 13.0, cuBLASLt 13.1.0, cuDNN 9.19.0": what this process computes with; part of the device
/// class. Throws EnvironmentError where one is missing or of another major version than this was
/// built against.
std::string library_versions();

}  // namespace lockstep::cuda
