// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/exec/backend.h"

namespace lockstep::test {

/// Gradients that `backend` clipped, by value and by unit, with and without an outcome, each
/// compared with a plain computation in fp64; to compare with another device's.
std::vector<std::vector<float>> expect_clipping(Backend& backend);

}  // namespace lockstep::test
