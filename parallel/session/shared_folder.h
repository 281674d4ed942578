// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/exec/communicator.h"

namespace lockstep {

/// Rank 0 puts a file into `folder` and every rank looks for it, for some seconds, since network
/// file systems remember what was not there. Collective. Throws EnvironmentError, on every rank
/// alike, naming the ranks and hosts that do not see it: checkpoints written on one node must be
/// readable on all.
void check_shared_folder(Communicator& communicator, const std::string& folder);

}  // namespace lockstep
