// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "core/exec/backend.h"
#include "kernels/cuda/group_access.cuh"

/// Many ranges of the flat space in one launch: they travel as an argument of the kernel, so that
/// nothing is allocated or copied.
namespace lockstep::cuda {

/// Range: offset and elems, with whatever else a kernel wants to know of one. Each is cut into
/// tiles of one size; a block of the launch takes one tile.
template <typename Range>
struct RangeTable {
  static constexpr int kMax = sizeof(Range) <= 24 ? 112 : 96;
  Range ranges[kMax];
  std::int32_t end_tile[kMax];  ///< tiles up to the end of each range
  std::int32_t count = 0;

  constexpr std::int32_t tiles() const { return count == 0 ? 0 : end_tile[count - 1]; }

  /// The range that tile `tile` lies in, and its number there.
  struct Place {
    Range range;
    std::int64_t tile;
  };
  __device__ Place place_of(std::int32_t tile) const {
    std::int32_t low = 0, high = count - 1;  // the first range that ends after the tile
    while (low < high) {
      const std::int32_t middle = (low + high) / 2;
      if (tile < end_tile[middle])
        high = middle;
      else
        low = middle + 1;
    }
    return {ranges[low], tile - (low == 0 ? 0 : end_tile[low - 1])};
  }
};

/// Calls `start` with tables that together hold `describe(range)` for every range that is not
/// empty. Ranges are a span of something with elems.
template <typename Range, typename Ranges, typename Describe, typename Start>
void for_each_table(Ranges ranges, std::int64_t tile_elems, Describe describe, Start start) {
  static_assert(sizeof(RangeTable<Range>) <= 3840, "the arguments of a kernel have 4 KiB");
  RangeTable<Range> table;
  for (const auto& range : ranges) {
    if (range.elems == 0) continue;
    const std::int64_t tiles = table.tiles() + ceil_div(range.elems, tile_elems);
    if (table.count == RangeTable<Range>::kMax || (table.count > 0 && tiles > INT32_MAX)) {
      start(table);
      table.count = 0;
    }
    const std::int32_t before = table.tiles();
    table.ranges[table.count] = describe(range);
    table.end_tile[table.count] = before + std::int32_t(ceil_div(range.elems, tile_elems));
    ++table.count;
  }
  if (table.count > 0) start(table);
}

/// The same, with the ranges as they are.
template <typename Start>
void for_each_table(std::span<const FlatRange> ranges, std::int64_t tile_elems, Start start) {
  for_each_table<FlatRange>(
      ranges, tile_elems, [](const FlatRange& range) { return range; }, start);
}

/// Whether all addresses are multiples of 16 bytes, or null.
template <typename... Pointers>
bool aligned_to_packs(const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % kPackBytes == 0) && ...);
}

/// Calls `body(i, width)` for this thread's elements of [begin, end), `begin` a multiple of four:
/// four at a time where `packed`, the others singly.
template <typename Body>
__device__ inline void for_each_in_tile(std::int64_t begin,
                                        std::int64_t end,
                                        bool packed,
                                        Body body) {
  constexpr int kElems = Pack<float>::kElems;
  const std::int64_t packs = packed ? (end - begin) / kElems : 0;
  for (std::int64_t p = threadIdx.x; p < packs; p += blockDim.x)
    body(begin + p * kElems, std::integral_constant<int, kElems>{});
  for (std::int64_t i = begin + packs * kElems + threadIdx.x; i < end; i += blockDim.x)
    body(i, std::integral_constant<int, 1>{});
}

}  // namespace lockstep::cuda
