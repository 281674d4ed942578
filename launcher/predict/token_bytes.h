// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/exec/communicator.h"
#include "lockstep/data/dataset.h"

namespace lockstep {

/// Bits a byte of UTF-8 for a mean loss of `loss` nats a target, over all targets of `data` that
/// count: loss * targets / (ln 2 * their bytes). Nothing where the data do not say the text of
/// their tokens. Each rank counts a part of the samples; counts are whole numbers, so the result
/// depends on no number of ranks. Collective.
std::optional<double> bits_per_byte(double loss, const data::Dataset& data, Communicator& ranks);

}  // namespace lockstep
