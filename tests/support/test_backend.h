// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "core/exec/backend.h"

namespace lockstep::testing {

/// The device that this test program was linked for: test_device_cpu, test_device_emulated (CUDA
/// kernels on an emulated device) or test_device_cuda.
std::unique_ptr<Backend> make_test_backend();

/// Why there is no such device here; empty where there is one.
std::string missing_device();

}  // namespace lockstep::testing
