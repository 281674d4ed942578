// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/parameter.h"

namespace lockstep {

/// The starting values of a parameter as stored. Element e is drawn from word e % 4 (uniform) or
/// words of block e / 2 (normal, Box-Muller) of Philox keyed by (seed, name): the same on every
/// rank, and with any number of threads, which share what takes long: one core of a GPU's host
/// draws the 124 million normal values of GPT-2 in 8 s. Those of Init::Kind::whitening are uniform:
/// no data are known here.
std::vector<float> initial_values(const Parameter& parameter, std::uint64_t seed, int threads = 1);

}  // namespace lockstep
