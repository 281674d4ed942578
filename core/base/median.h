// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace lockstep {

/// The middle of the sorted values, or the mean of the two there. At least one value.
double median_of(std::vector<double> values);

}  // namespace lockstep
