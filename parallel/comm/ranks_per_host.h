// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace lockstep {

/// Ranks of one host, where `hosts`, of every rank, says that those are consecutive and as many on
/// each; otherwise all ranks.
int uniform_ranks_per_host(std::span<const int> hosts);

}  // namespace lockstep
