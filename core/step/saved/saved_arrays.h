// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/exec/backend.h"
#include "core/graph/graph.h"
#include "core/plan/flat_space.h"
#include "core/step/flat_array.h"
#include "core/step/owner_exchange.h"

namespace lockstep {

/// The flat arrays of a replica that a checkpoint saves, the parameters first, and what their
/// segments are called.
struct SavedArrays {
  Backend& backend;
  const Graph& graph;
  const FlatSpace& space;
  std::vector<FlatArray> arrays;
  OwnerExchange* owners = nullptr;  ///< null: no array is owned in parts
};

/// The file of a checkpoint that an array lies in, and whether it has a part for `parameter`: no
/// array has one for a metric, the optimizer's have them for what is trained.
enum class CheckpointFile : std::uint8_t { model, optimizer, average };
CheckpointFile file_of(const FlatArray& array);
bool has(const FlatArray& array, const Parameter& parameter);

/// What of [part.offset, part.offset + part.elems) a snapshot copies of `array`: from the first
/// tensor to the last that it has a part for.
FlatRange copied_range(const SavedArrays& saved, const FlatArray& array, const FlatRange& part);

/// What a snapshot of a part takes.
std::size_t copied_bytes(const SavedArrays& saved, const FlatRange& part);

/// The part of the flat space that each of `writers` ranks copies and writes, by rank. Parts end
/// where tensors do, so that one rank writes all of a tensor; the largest has as few bytes as that
/// allows, and is rank 0's. There may be fewer than ranks; the others are empty: the bytes are
/// enough for parts of kMinPartBytes, as less is written faster by fewer ranks, and a rank that
/// dies takes the save with it that it was writing.
inline constexpr std::int64_t kMinPartBytes = std::int64_t{16} << 20;
std::vector<FlatRange> snapshot_parts(const SavedArrays& saved, int writers);

}  // namespace lockstep
