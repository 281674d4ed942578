// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/exec/communicator.h"
#include "parallel/comm/nccl/nccl_library.h"
#include "parallel/comm/nccl/nccl_link.h"

namespace lockstep {

/// Opens NCCL on every rank of `host`; `library`: see NcclOptions. Collective. Throws
/// EnvironmentError, the same on all ranks: some could not, or the versions differ.
const Nccl& open_nccl_together(Communicator& host, const std::string& library);

/// Has `link` join the others over an id that rank 0 of `host` makes. Collective. Throws
/// EnvironmentError, the same on all ranks, where any rank fails; then `link` is given up.
void join_together(Communicator& host, const Nccl& nccl, NcclLink& link, double limit_s);

}  // namespace lockstep
