// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>

#include "core/exec/communicator.h"

namespace lockstep {

/// What ranks agree on without a list of what each has. Each function is collective and returns the
/// same on every rank. It is one Communicator::all_reduce_max() of 8 or 16 bytes a value, in host
/// memory: on N ranks about 2 log2(N) messages, and no memory that grows with N. What has to be
/// known of each rank by itself is for gather_records(), which gives every rank N records.

/// Whether every rank has the same values, as many on each: where max(v) = min(v), and min(v) is
/// ~max(~v).
bool all_ranks_equal(Communicator& communicator, std::initializer_list<std::uint64_t> own);

/// Whether `own` holds on every rank.
bool all_ranks(Communicator& communicator, bool own);

/// Whether `own` holds on one or more ranks.
bool any_rank(Communicator& communicator, bool own);

/// The lowest rank on which `own` holds; -1: there is none.
int first_rank(Communicator& communicator, bool own);

std::uint64_t largest(Communicator& communicator, std::uint64_t own);
std::uint64_t smallest(Communicator& communicator, std::uint64_t own);
/// Of numbers, infinite ones as well; no NaN.
double largest(Communicator& communicator, double own);

}  // namespace lockstep
