// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "core/exec/backend.h"
#include "core/step/snapshot.h"

namespace lockstep {

/// What of [part.offset, part.offset + part.elems) a snapshot copies of `array`: from the first
/// tensor to the last that it has a part for.
FlatRange copied_range(const SavedArrays& saved, const FlatArray& array, const FlatRange& part);

/// The part of the flat space that each of `writers` ranks copies and writes, by rank. Parts end
/// where tensors do, so that one rank writes all of a tensor; the largest has as few bytes as that
/// allows, and is rank 0's. There may be fewer than ranks; the others are empty.
std::vector<FlatRange> snapshot_parts(const SavedArrays& saved, int writers);

}  // namespace lockstep
