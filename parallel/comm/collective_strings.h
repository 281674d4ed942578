// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/exec/communicator.h"

namespace lockstep {

/// Rank 0's text, on every rank. Collective.
std::string broadcast_string(Communicator& communicator, std::string text);

/// Every rank's text, by rank, on every rank. Collective.
std::vector<std::string> gather_strings(Communicator& communicator, const std::string& text);

}  // namespace lockstep
