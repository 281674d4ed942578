// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/batch_norm/batch_norm_tiles.cuh"
#include "kernels/cuda/reduce.cuh"

// Note [Sums of batch norm]
//
// Two sums for each channel of a group, by tiles (Note [Tiles of batch norm]). A thread adds at
// most kTileRows rows in fp32: those of a batch, which are under way together, then batches. The
// threads of a column are added in fp64: each leaves its channels in shared memory as a part of a
// row, and takes one channel of `width` rows back, so that all threads add; what is left after that
// is added by shuffles and one more pass through shared memory (add_columns). A tile leaves
// TileSums of each of its channels in the workspace. A second kernel adds the tiles of a group: a
// few in each thread, read together, then add_columns again.
//
// With few rows the time is that of these steps one after another, with many that of memory. There
// are as many blocks as the device holds at once, or fewer, or a multiple of that.
//
// All orders are functions of the shape alone, and so are the bits of the result.
namespace lockstep::cuda {

/// A chunk as words, two bf16 in one: halves that are registers of their own take an instruction
/// more each to read, and one each to clear.
template <typename T, int width>
struct HeldChunk {
  static_assert(width * sizeof(T) % sizeof(std::uint32_t) == 0 || width == 1);
  static constexpr bool kPairs = std::is_same_v<T, Bf16> && width > 1;
  using Word = std::conditional_t<kPairs, std::uint32_t, T>;
  static constexpr int kWords = kPairs ? width / 2 : width;
  Chunk<Word, kWords> words = {};

  __device__ void load(const T* address) {
    words = load_chunk<kWords>(reinterpret_cast<const Word*>(address));
  }
  __device__ void set(const Chunk<T, width>& chunk) {
    words = std::bit_cast<Chunk<Word, kWords>>(chunk);
  }
  __device__ float get(int i) const {
    if constexpr (kPairs) {
      const std::uint32_t pair = words.values[i / 2];
      return __uint_as_float(i % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
    } else {
      return to_float(words.values[i]);
    }
  }
};

/// `count` of a thread's rows, all under way together; where not `whole` the first `left`, then 0.
template <typename T, int width, int count, bool whole>
struct HeldRows {
  HeldRows() = default;
  __device__ HeldRows(const T* at, std::int64_t step, int left) {
#pragma unroll
    for (int k = 0; k < count; ++k, at += step)
      if (whole || k < left) rows[k].load(at);
  }
  __device__ float get(int k, int i) const { return rows[k].get(i); }
  HeldChunk<T, width> rows[count];
};

/// Rows that a thread adds in fp32 at most.
inline constexpr int kTileRows = 64;

/// What a tile leaves of a channel, and what the tiles of a group add up to.
struct alignas(16) TileSums {
  double first = 0, second = 0;
  __device__ void add(const TileSums& other) {
    first += other.first;
    second += other.second;
  }
};

/// Rows of thread `row` of a column in a tile of `rows` rows.
__device__ inline int rows_of_thread(int rows, int row, const BatchNormTiles& tiles) {
  const int row_lanes = kBlock >> tiles.lane_bits;
  return (rows - row + row_lanes - 1) >> (kBlockBits - tiles.lane_bits);
}

/// Calls `body` with the place of the first of `batch` rows, how many rows are left, and whether
/// these are `batch` or more, as a constant, until a thread has no more of its `rows` rows.
template <int batch, typename Body>
__device__ inline void for_batches(std::int64_t at, std::int64_t step, int rows, Body body) {
  for (; rows >= batch; rows -= batch, at += batch * step) body(at, rows, std::true_type{});
  if (rows > 0) body(at, rows, std::false_type{});
}

/// Adds the values of threads that are a multiple of `columns` apart, a power of two of at most
/// kBlock, into those of the first `columns` threads. `shared`: one for each thread, unused before.
__device__ inline TileSums add_columns(TileSums sums, int columns, TileSums* shared) {
  const int thread = int(threadIdx.x), lane = thread % kWarp;
  const int kept = columns < kWarp ? columns : kWarp;
  for (int distance = kWarp / 2; distance >= kept; distance /= 2)
    sums.add({__shfl_xor_sync(kAllLanes, sums.first, distance),
              __shfl_xor_sync(kAllLanes, sums.second, distance)});
  if (lane < kept) shared[thread / kWarp * kept + lane] = sums;
  __syncthreads();
  if (thread < columns) {
    sums = shared[thread];
#pragma unroll
    for (int i = 1; i < kBlock / kWarp; ++i)
      if (thread + i * columns < kBlock / kWarp * kept) sums.add(shared[thread + i * columns]);
  }
  return sums;
}

/// Tiles that a thread of a block that adds tiles reads at once.
inline constexpr int kJoinTiles = 8;

/// Where a thread of such a block is: `columns` channels side by side, of which each thread adds a
/// slice of the group's tiles; about four, or more where two channels, 32 bytes, are side by side.
struct JoinPlace {
  std::int64_t group, channel;
  int columns, slice, slices;
  __device__ explicit JoinPlace(const BatchNormTiles& tiles) {
    columns = 1 << tiles.join_bits;
    slices = kBlock >> tiles.join_bits;
    const unsigned blocks = unsigned((tiles.channels + columns - 1) >> tiles.join_bits);
    group = blockIdx.x / blocks;
    channel = blockIdx.x % blocks * columns + (threadIdx.x & (columns - 1));
    slice = int(threadIdx.x) >> tiles.join_bits;
  }
  static LaunchShape shape(const BatchNormTiles& tiles) {
    return {.grid = dim3(unsigned(ceil_div(tiles.channels, 1 << tiles.join_bits) * tiles.groups)),
            .shared_bytes = kBlock * sizeof(TileSums)};
  }
};

/// The sum of what `value` makes of a tile's number and sums, over all tiles of the group, in
/// threads of slice 0. partial: [groups, tiles, channels].
template <typename Value>
__device__ inline TileSums add_tiles(const TileSums* partial,
                                     const JoinPlace& place,
                                     const BatchNormTiles& tiles,
                                     Value value) {
  TileSums all;
  const int end = place.channel < tiles.channels ? int(tiles.tiles) : 0;
  const TileSums* at =
      partial + (place.group * tiles.tiles + place.slice) * tiles.channels + place.channel;
  for (int first = place.slice; first < end; first += kJoinTiles * place.slices) {
    TileSums parts[kJoinTiles];
#pragma unroll
    for (int k = 0; k < kJoinTiles; ++k, at += tiles.join_step)
      if (first + k * place.slices < end) parts[k] = *at;
#pragma unroll
    for (int k = 0; k < kJoinTiles; ++k)
      if (first + k * place.slices < end) all.add(value(first + k * place.slices, parts[k]));
  }
  return add_columns(all, place.columns, dynamic_shared<TileSums>());
}

}  // namespace lockstep::cuda
