// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

/// How gradients of several ranks are summed: in one order for every number of ranks, or by the
/// library's own all-reduce, whose bits depend on their number. Apart from GradientExchange, which
/// needs the settings' types.
enum class Reduction : std::uint8_t { reproducible, fast };

}  // namespace lockstep
