// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <type_traits>

#include "core/ops/norms/batch_norm.h"
#include "kernels/cuda/chunk.cuh"

// Note [Tiles of batch norm]
//
// A group is `rows` rows of `channels` neighbouring values. A block of kBlock threads owns a tile:
// `lanes` threads side by side, each with a chunk of channels, and kBlock / lanes threads one below
// another, each of which walks down its column kBlock / lanes rows at a time. What depends on the
// channel alone is loaded once. Sums leave a tile as one value per channel, in fp64, in the
// workspace; a second kernel combines the tiles of a group. All of it is a function of the shape
// alone, and so are the bits of the result.
namespace lockstep::cuda {

struct BatchNormTiles {
  std::int64_t samples = 0, positions = 0, channels = 0;
  std::int64_t group_size = 0, groups = 0;
  int width = 1;                       ///< channels of a chunk
  int lanes = 1;                       ///< chunks side by side, a power of two
  std::int64_t chunks = 0, tiles = 0;  ///< blocks side by side, and one below another, in a group
  std::int64_t tile_rows = 0;

  /// `pack`: elements of a pack. About `blocks` blocks, or fewer, of whole batches of `batch` rows.
  BatchNormTiles(const Shape& x, std::int64_t size, int pack, std::int64_t blocks, int batch)
      : samples(x[0]),
        positions(x.rank() == 4 ? x[1] * x[2] : 1),
        channels(x[-1]),
        group_size(size == 0 ? samples : size),
        groups(ops::batch_norm_groups(samples, size)),
        width(channels % pack == 0 ? pack : 1) {
    while (lanes < kWarp && std::int64_t(lanes) * width < channels) lanes *= 2;
    chunks = ceil_div(channels, std::int64_t(lanes) * width);
    const std::int64_t rows = std::min(samples, group_size) * positions;
    const std::int64_t batch_rows = std::int64_t(kBlock / lanes) * batch;
    const std::int64_t batches = std::max<std::int64_t>(ceil_div(rows, batch_rows), 1);
    const std::int64_t wanted = std::clamp<std::int64_t>(blocks / (chunks * groups), 1, batches);
    tile_rows = ceil_div(batches, wanted) * batch_rows;
    tiles = std::max<std::int64_t>(ceil_div(rows, tile_rows), 1);
  }

  __host__ __device__ std::int64_t samples_in(std::int64_t group) const {
    const std::int64_t left = samples - group * group_size;
    return left < group_size ? left : group_size;
  }
  __host__ __device__ std::int64_t rows_in(std::int64_t group) const {
    return samples_in(group) * positions;
  }
  /// Rows of tile `tile` of a group.
  __host__ __device__ std::int64_t rows_in_tile(std::int64_t group, std::int64_t tile) const {
    const std::int64_t left = rows_in(group) - tile * tile_rows;
    return left < 0 ? 0 : left < tile_rows ? left : tile_rows;
  }
  LaunchShape shape(std::size_t shared_bytes = 0) const {
    return {.grid = dim3(unsigned(chunks * tiles * groups)), .shared_bytes = shared_bytes};
  }
};

/// Where a thread is: `first_row` to `end_row` of all rows in steps of `row_step`, none where it
/// has no channels.
struct TilePlace {
  std::int64_t group, tile, channel, first_row, end_row;
  int lane, row_lane, row_lanes;

  __device__ explicit TilePlace(const BatchNormTiles& tiles) {
    const std::int64_t block = blockIdx.x, column = block % tiles.chunks;
    tile = block / tiles.chunks % tiles.tiles;
    group = block / tiles.chunks / tiles.tiles;
    lane = int(threadIdx.x) % tiles.lanes;
    row_lane = int(threadIdx.x) / tiles.lanes;
    row_lanes = kBlock / tiles.lanes;
    channel = (column * tiles.lanes + lane) * tiles.width;
    const std::int64_t begin = group * tiles.group_size * tiles.positions + tile * tiles.tile_rows;
    first_row = begin + row_lane;
    end_row = has_channels(tiles) ? begin + tiles.rows_in_tile(group, tile) : 0;
  }
  /// Of this block's tile among those of all groups.
  __device__ static std::int64_t number(const BatchNormTiles& tiles) {
    return blockIdx.x / tiles.chunks;
  }
  __device__ bool has_channels(const BatchNormTiles& tiles) const {
    return channel < tiles.channels;
  }
};

/// Combines the values of the threads that share a column (thread = row * columns + column, rows a
/// power of two) into that of row 0. `shared`: half as many values as threads.
template <typename Value, typename Combine>
__device__ inline void combine_rows(
    Value& value, Value* shared, int row, int rows, int column, int columns, Combine combine) {
  for (int half = rows / 2; half > 0; half /= 2) {
    __syncthreads();
    if (row >= half && row < 2 * half) shared[(row - half) * columns + column] = value;
    __syncthreads();
    if (row < half) combine(value, shared[row * columns + column]);
  }
}

/// Threads of a block that combines tiles: this many channels side by side.
inline constexpr int kJoinChannels = 8, kJoinSlices = kBlock / kJoinChannels;

/// Calls `body` with the width of chunks as a constant: `pack` or 1.
template <int pack, typename Body>
void with_width(int width, Body body) {
  if (width == pack)
    body(std::integral_constant<int, pack>{});
  else
    body(std::integral_constant<int, 1>{});
}

}  // namespace lockstep::cuda
