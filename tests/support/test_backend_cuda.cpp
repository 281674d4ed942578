// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device/device_probe.h"
#include "tests/support/test_backend.h"

namespace lockstep::testing {

std::unique_ptr<Backend> make_test_backend() { return make_cuda_backend(0); }
std::string missing_device() { return probe_cuda().reason; }

}  // namespace lockstep::testing
