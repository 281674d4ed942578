// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/test_backend.h"

namespace lockstep::testing {

std::unique_ptr<Backend> make_test_backend() { return make_cpu_backend(); }
std::string missing_device() { return {}; }

}  // namespace lockstep::testing
