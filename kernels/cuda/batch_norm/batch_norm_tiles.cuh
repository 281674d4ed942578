// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <type_traits>

#include "core/ops/norms/batch_norm.h"
#include "kernels/cuda/chunk.cuh"

// Note [Tiles of batch norm]
//
// A group is `rows` rows of `channels` neighbouring values. A block of kBlock threads owns a tile:
// `lanes` threads side by side, each with a chunk of channels, and kBlock / lanes threads one below
// another, each of which walks down its column kBlock / lanes rows at a time. What depends on the
// channel alone is loaded once.
// All of it is a function of the shape alone. Sums over rows: Note [Sums of batch norm].
namespace lockstep::cuda {

inline constexpr int kBlockBits = std::countr_zero(unsigned(kBlock));
static_assert(1 << kBlockBits == kBlock);

struct BatchNormTiles {
  std::int64_t samples = 0, positions = 0, channels = 0;
  std::int64_t group_size = 0, groups = 0;
  int width = 1;                       ///< channels of a chunk
  int lane_bits = 0, lanes = 1;        ///< chunks side by side: 2^lane_bits
  std::int64_t chunks = 0, tiles = 0;  ///< blocks side by side, and one below another, in a group
  std::int64_t tile_rows = 0;
  std::int64_t step = 0;       ///< elements from one of a thread's rows to the next
  int join_bits = kBlockBits;  ///< a block that adds tiles has 2^join_bits channels side by side
  std::int64_t join_step = 0;  ///< values from one of a thread's tiles to the next

  /// `pack`: elements of a pack. About `blocks` blocks, or fewer, of whole batches of `batch` rows;
  /// a multiple of that where a thread would have more than `most_rows` rows (0: any number).
  BatchNormTiles(const Shape& x,
                 std::int64_t size,
                 int pack,
                 std::int64_t blocks,
                 int batch,
                 std::int64_t most_rows = 0)
      : samples(x[0]),
        positions(x.rank() == 4 ? x[1] * x[2] : 1),
        channels(x[-1]),
        group_size(size == 0 ? samples : size),
        groups(ops::batch_norm_groups(samples, size)),
        width(channels % pack == 0 ? pack : 1) {
    while (lanes < kWarp && std::int64_t(lanes) * width < channels) lanes = 1 << ++lane_bits;
    chunks = ceil_div(channels, std::int64_t(lanes) * width);
    step = kBlock / lanes * channels;
    const std::int64_t rows = std::min(samples, group_size) * positions;
    const std::int64_t batch_rows = std::int64_t(kBlock / lanes) * batch;
    const std::int64_t batches = std::max<std::int64_t>(ceil_div(rows, batch_rows), 1);
    const std::int64_t at_once = std::max<std::int64_t>(blocks / (chunks * groups), 1);
    const std::int64_t most = most_rows == 0 ? batches : most_rows / batch;
    const std::int64_t wanted = std::min(ceil_div(batches, at_once * most) * at_once, batches);
    tile_rows = ceil_div(batches, wanted) * batch_rows;
    tiles = std::max<std::int64_t>(ceil_div(rows, tile_rows), 1);
    while (join_bits > 1 && (kBlock >> join_bits) * 4 < tiles) --join_bits;
    join_step = (kBlock >> join_bits) * channels;
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
  /// Channels of a tile.
  __host__ __device__ int columns() const { return lanes * width; }
  LaunchShape shape(std::size_t shared_bytes = 0) const {
    return {.grid = dim3(unsigned(chunks * tiles * groups)), .shared_bytes = shared_bytes};
  }
};

/// Where a thread is: `first_row` to `end_row` of all rows in steps of `row_lanes`, none where it
/// has no channels.
struct TilePlace {
  std::int64_t group, tile, channel, first_row, end_row;
  std::int64_t number, first_channel;  ///< of the tile among those of all groups; of the tile
  int lane, row_lane, row_lanes;

  __device__ explicit TilePlace(const BatchNormTiles& tiles) {
    // A grid's extent fits in 32 bits. Division takes as long as a load: most often there is one
    // chunk and one group.
    unsigned above = blockIdx.x, column = 0;
    if (tiles.chunks > 1) {
      above = blockIdx.x / unsigned(tiles.chunks);
      column = blockIdx.x - above * unsigned(tiles.chunks);
    }
    number = above;
    group = tiles.groups > 1 ? above / unsigned(tiles.tiles) : 0;
    tile = number - group * tiles.tiles;
    first_channel = std::int64_t(column) * tiles.columns();
    lane = int(threadIdx.x) & (tiles.lanes - 1);
    row_lane = int(threadIdx.x) >> tiles.lane_bits;
    row_lanes = kBlock >> tiles.lane_bits;
    channel = first_channel + lane * tiles.width;
    const std::int64_t begin = group * tiles.group_size * tiles.positions + tile * tiles.tile_rows;
    first_row = begin + row_lane;
    end_row = has_channels(tiles) ? begin + tiles.rows_in_tile(group, tile) : 0;
  }
  __device__ bool has_channels(const BatchNormTiles& tiles) const {
    return channel < tiles.channels;
  }
};

/// Calls `body` with the width of chunks as a constant: `pack` or 1.
template <int pack, typename Body>
void with_width(int width, Body body) {
  if (width == pack)
    body(std::integral_constant<int, pack>{});
  else
    body(std::integral_constant<int, 1>{});
}

}  // namespace lockstep::cuda
