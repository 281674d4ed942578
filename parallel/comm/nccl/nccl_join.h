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

struct NcclJoin {
  double limit_s;
  int ranks_per_root;
};

/// Has `link` join the others at one rank of `host` in join.ranks_per_root, whose addresses all
/// learn. Collective. Throws EnvironmentError, the same on all ranks, where any rank fails; then
/// `link` is given up.
void join_together(Communicator& host, const Nccl& nccl, NcclLink& link, const NcclJoin& join);

/// Has all ranks of `host` split `whole`; `part` and `color`: see NcclLink::split(). Collective.
/// Throws as join_together(); then both are given up.
void split_together(
    Communicator& host, NcclLink& whole, NcclLink* part, int color, const NcclJoin& join);

}  // namespace lockstep
