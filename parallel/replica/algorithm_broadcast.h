// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/rank_context.h"

namespace lockstep {

/// Runs `compile`, which makes kernels, on every rank, so that all use the algorithms that rank 0's
/// device chooses. Where that device chooses any, rank 0 compiles first; then the others take its
/// choices (Backend::take_choices()) and compile. Kernels made outside of this function are a
/// rank's own choice. Collective, but `compile` must not call a collective.
///
/// Where `compile` throws, on one rank or on several, every rank throws: its own exception where
/// all have the same message, otherwise that of the lowest rank that threw, which it names. An
/// OutOfMemory stays one on all ranks.
void compile_with_broadcast_algorithms(RankContext& context, const std::function<void()>& compile);

}  // namespace lockstep
