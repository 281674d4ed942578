// SPDX-License-Identifier: Apache-2.0
#include "lockstep/rank_context.h"

#include "core/exec/communicator.h"
#include "core/exec/position.h"

namespace lockstep {

RankContext::RankContext() : position_(std::make_unique<Position>()) {}
RankContext::~RankContext() = default;

int RankContext::rank() { return host_communicator().rank(); }
int RankContext::size() { return host_communicator().size(); }

}  // namespace lockstep
