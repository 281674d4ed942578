// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/exec/replica_hash.h"
#include "kernels/cuda/range_table.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/step/flat.h"

// Hashes of ranges of the flat space. A block takes one tile of a range, a thread four neighbouring
// elements at a time where addresses allow; a block's sum is one number, and the host adds those of
// a range. Addition modulo 2^64 has no order. Bytes: the values once, and 8 for 32 KiB of them.
// Bound by memory: the four multiplications of an element are IMAD.WIDE.U32, swaps of halves are
// free.
namespace lockstep::cuda {
namespace {

constexpr std::int64_t kHashTile = kBlock * 32;

struct TiledRange {
  std::int64_t offset, elems;
  std::int64_t tile;  ///< index of its first tile among those of all ranges
  bool bf16;
};

__device__ inline float as_hashed(float value, bool bf16) {
  return bf16 ? to_float(from_float<Bf16>(value)) : value;
}

__global__ void tile_hashes_kernel(std::uint64_t* tiles,
                                   const float* values,
                                   const __grid_constant__ RangeTable<TiledRange> table,
                                   bool aligned) {
  wait_for_earlier_work();
  const auto place = table.place_of(std::int32_t(blockIdx.x));
  const TiledRange& range = place.range;
  const std::int64_t begin = place.tile * kHashTile, end = begin + kHashTile;
  std::uint64_t sum = 0;
  for_each_in_tile(
      begin,
      end < range.elems ? end : range.elems,
      aligned && range.offset % Pack<float>::kElems == 0,
      [&](std::int64_t i, auto width) {
        constexpr int kWidth = decltype(width)::value;
        const Group<float, kWidth> group = load_group<kWidth>(values + range.offset + i);
        for (int j = 0; j < kWidth; ++j)
          sum += replica_hash_mix(__float_as_uint(as_hashed(group.values[j], range.bf16)),
                                  range.offset + i + j);
      });
  sum = block_sum(sum, dynamic_shared<std::uint64_t>());
  if (threadIdx.x == 0) tiles[range.tile + place.tile] = sum;
}

}  // namespace

std::size_t hash_tiles(std::span<const HashRange> ranges) {
  std::int64_t tiles = 0;
  for (const HashRange& range : ranges) tiles += ceil_div(range.elems, kHashTile);
  return std::size_t(tiles);
}

void hash(const Device& device,
          const float* values,
          std::span<const HashRange> ranges,
          std::uint64_t* result,
          std::uint64_t* tiles,
          std::span<std::uint64_t> host_tiles) {
  std::int64_t count = 0;
  for_each_table<TiledRange>(
      ranges,
      kHashTile,
      [&](const HashRange& range) {
        const std::int64_t first = count;
        count += ceil_div(range.elems, kHashTile);
        return TiledRange{range.offset, range.elems, first, range.bf16};
      },
      [&](const RangeTable<TiledRange>& table) {
        launch("tile_hashes",
               {.grid = dim3(unsigned(table.tiles())),
                .shared_bytes = kBlock / kWarp * sizeof(std::uint64_t)},
               device.compute,
               tile_hashes_kernel,
               tiles,
               values,
               table,
               aligned_to_packs(values));
      });
  check(cudaMemcpyAsync(host_tiles.data(),
                        tiles,
                        std::size_t(count) * sizeof(std::uint64_t),
                        cudaMemcpyDeviceToHost,
                        device.compute),
        "copy of hashes");
  check(cudaStreamSynchronize(device.compute), "waiting for hashes");
  const std::uint64_t* tile = host_tiles.data();
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    result[i] = 0;
    for (std::int64_t t = 0; t < ceil_div(ranges[i].elems, kHashTile); ++t) result[i] += *tile++;
  }
}

}  // namespace lockstep::cuda
