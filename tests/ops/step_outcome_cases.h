// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/exec/backend.h"

namespace lockstep::test {

/// Outcomes on `backend` of sums with and without classes, ignored labels, clipping, and of bad
/// ones, each compared with a plain computation in fp64; to compare with another device's.
std::vector<StepOutcome> expect_outcomes(Backend& backend);

/// Where an outcome is bad no byte of any array changes; otherwise its grad_scale counts, not the
/// update's own.
void expect_outcomes_to_govern_updates(Backend& backend);

}  // namespace lockstep::test
