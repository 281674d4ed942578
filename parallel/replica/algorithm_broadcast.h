// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/rank_context.h"

namespace lockstep {

/// Runs `compile`, which makes kernels, on every rank, so that all run the algorithms that rank 0's
/// device chooses for it: rank 0 compiles first where its device chooses any, the others take its
/// choices (Backend::take_choices()) and compile then. What they compile before and afterwards
/// alone is their own. Collective, but `compile` must hold no collective.
///
/// Where `compile` throws, on one rank or on several, every rank throws: its own exception where
/// all have the same message, otherwise that of the lowest rank that threw, which it names. An
/// OutOfMemory stays one on all ranks.
void compile_with_broadcast_algorithms(RankContext& context, const std::function<void()>& compile);

}  // namespace lockstep
