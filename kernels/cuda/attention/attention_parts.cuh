// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>

#include "core/base/random.h"
#include "core/ops/attention.h"
#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/step/step_counters.cuh"

// Note [Tiles of attention]
//
// Queries, keys and columns of a head are worked on in tiles of kTile, which lie in shared memory
// as fp32; a block of kTile / 4 x kTile / 4 threads multiplies two of them, 4 x 4 sums in each
// thread's registers: threads of a row of the block share four rows of the product, those of a
// column four columns. Both factors are read along the summed index first, so that a thread finds
// its four numbers in one access. What lies outside the tensors is zero. Heads wider than
// kMaxSlices tiles are divided among blocks, which compute the same scores again.
namespace lockstep::cuda {

inline constexpr int kTile = 64;
inline constexpr int kQuad = 4;  // rows and columns of a thread
inline constexpr int kTileElems = kTile * kTile;
inline constexpr int kMaxSlices = 2;  // tiles of columns that a block keeps sums of
/// At T = 1,024 and D = 64 as many heads have about as many blocks as an H100 holds at a time,
/// which read 8 MB of bf16.
inline constexpr int kHeadsAtOnce = 32;
static_assert(kTile / kQuad * (kTile / kQuad) == kBlock);

struct AttentionShape {
  std::int64_t samples = 0, tokens = 0, heads = 0;
  std::int64_t kv_heads = 0;  ///< of keys and values
  std::int64_t depth = 0;     ///< columns of a head
  int group = 1;              ///< heads that share keys and values
  bool causal = false;
  bool packs = false;  ///< rows of a head are whole packs
  float scale = 1;     ///< 1 / sqrt(depth)

  AttentionShape(const ops::AttentionAttrs& attrs, const TensorType& qkv, int pack)
      : samples(qkv.shape[0]),
        tokens(qkv.shape[1]),
        heads(attrs.heads),
        kv_heads(attrs.key_heads()),
        depth(attrs.depth_of(qkv)),
        group(attrs.group()),
        causal(attrs.causal),
        packs(depth % pack == 0),
        scale(1.0f / std::sqrt(float(depth))) {}

  /// Elements between the rows of qkv.
  __host__ __device__ std::int64_t packed_row() const { return (heads + 2 * kv_heads) * depth; }
  std::int64_t token_tiles() const { return ceil_div(tokens, kTile); }
  int slices() const { return int(ceil_div(depth, kTile)); }
  /// Blocks that share a tile of tokens.
  std::int64_t slice_groups() const { return ceil_div(slices(), kMaxSlices); }
  /// Of blocks that own tokens of one of `own_heads` heads of a sample.
  LaunchShape launch_shape(std::int64_t own_heads) const {
    return {.grid = dim3(unsigned(samples * own_heads * slice_groups() * token_tiles())),
            .shared_bytes = 3 * kTileElems * sizeof(float)};
  }
};

/// What decides which weights are dropped: see ops::Dropout.
struct WeightDropout {
  static constexpr bool kDrops = true;
  std::uint64_t key = 0;
  LaunchCounters counters;
  std::uint32_t threshold = 0;  ///< weights whose word is smaller are dropped
  float scale = 1;              ///< of those kept

  /// rate in [0, 1) has 24 bits, so the threshold is below 2^32.
  WeightDropout(float rate, const std::string& path, const RunState& state)
      : key(random_key(state.seed, path)),
        counters(state),
        threshold(std::uint32_t(std::llround(double(rate) * 0x1p32))),
        scale(float(1.0 / (1.0 - double(rate)))) {}
};

/// That none are. A type of its own, so that kernels without dropout have no code for it, which in
/// their inner loops would take registers and two thirds of the instructions.
struct NoDropout {
  static constexpr bool kDrops = false;
  static constexpr float scale = 1;
};

/// Calls `body` with what drops weights at `rate`.
template <typename Body>
void with_dropout(float rate, const std::string& path, const RunState& state, Body body) {
  if (rate > 0.0f)
    body(WeightDropout(rate, path, state));
  else
    body(NoDropout{});
}

/// A block's head, tile of tokens and first slice of columns; this thread's quads in a product.
struct HeadBlock {
  std::int64_t sample, head, first_token;
  std::int64_t kv_head;  // whose keys and values the head sees
  int first_slice;
  int row, column;  // of this thread's 4 x 4 sums in a tile

  /// Of tiles of `size` tokens. Heads take turns, kHeadsAtOnce of them, so that what their blocks
  /// read stays in the L2 cache; of a turn the last tiles, whose causal rows are the longest, go to
  /// the first blocks where `last_first`, otherwise the first.
  __device__ HeadBlock(const AttentionShape& s, bool last_first, int size = kTile)
      : HeadBlock(s, unsigned(s.heads), last_first, size) {
    kv_head = unsigned(head) / unsigned(s.group);
  }
  /// Of a head of keys and values, and of the first head of the group that sees them.
  __device__ static HeadBlock of_keys(const AttentionShape& s, int size = kTile) {
    HeadBlock block(s, unsigned(s.kv_heads), false, size);
    block.kv_head = block.head;
    block.head *= s.group;
    return block;
  }
  /// Of one of `own_heads` heads; kv_head is left open.
  __device__ HeadBlock(const AttentionShape& s, unsigned own_heads, bool last_first, int size) {
    // All below the number of blocks: 32 bits, whose divisions are short.
    const auto tiles = unsigned((s.tokens + size - 1) / size);
    const auto groups = unsigned((s.depth + kMaxSlices * kTile - 1) / (kMaxSlices * kTile));
    const unsigned heads = unsigned(s.samples) * own_heads * groups;
    const unsigned first_head = blockIdx.x / (kHeadsAtOnce * tiles) * kHeadsAtOnce;
    const unsigned left = heads - first_head, turn = left < kHeadsAtOnce ? left : kHeadsAtOnce;
    const unsigned place = blockIdx.x - first_head * tiles;
    const unsigned tile = place / turn, rest = first_head + place % turn;
    first_token = std::int64_t(last_first ? tiles - 1 - tile : tile) * size;
    first_slice = int(rest % groups) * kMaxSlices;
    head = rest / groups % own_heads;
    sample = rest / groups / own_heads;
    row = int(threadIdx.x) / (kTile / kQuad) * kQuad;
    column = int(threadIdx.x) % (kTile / kQuad) * kQuad;
  }
  /// Offset of token t's column 0 in qkv's block `part` (0: q, 1: k, 2: v), and in y.
  __device__ std::int64_t packed(const AttentionShape& s, int part, std::int64_t t) const {
    const std::int64_t number = part == 0 ? head : s.heads + (part - 1) * s.kv_heads + kv_head;
    return (sample * s.tokens + t) * s.packed_row() + number * s.depth;
  }
  __device__ std::int64_t plain(const AttentionShape& s, std::int64_t t) const {
    return ((sample * s.tokens + t) * s.heads + head) * s.depth;
  }
  /// In [samples, heads, tokens].
  __device__ std::int64_t statistic(const AttentionShape& s, std::int64_t t) const {
    return (sample * s.heads + head) * s.tokens + t;
  }
};

/// Some rows of a tensor of which a tile is loaded; the first element is row 0, column 0.
template <typename T>
struct TileSource {
  const T* first;
  std::int64_t row_stride, rows, columns;  // rows and columns may be more than a tile's, or less
  bool packs;
};

/// The part of a tile that products read where the tensor ends after `count`.
__device__ inline int whole_quads(std::int64_t count) {
  return count < kTile ? (int(count) + kQuad - 1) / kQuad * kQuad : kTile;
}

/// to[column][row] = factor * from[row][column]. Neighbouring threads take neighbouring rows, so
/// that they write to different banks; the rest of their sectors waits in the cache.
template <typename T>
__device__ inline void load_columns(float* to, const TileSource<T>& from, float factor) {
  constexpr int kPack = Pack<T>::kElems;
  const int row = int(threadIdx.x) % kTile, first = int(threadIdx.x) / kTile;
  constexpr int kStep = kBlock / kTile;
  const T* const line = from.first + row * from.row_stride;
  const bool exists = row < from.rows;
  if (from.packs) {
#pragma unroll
    for (int c = first * kPack; c < kTile; c += kStep * kPack) {
      if (c >= from.columns) continue;
      Pack<T> pack{};
      if (exists) pack = load_pack(line + c);
      for (int i = 0; i < kPack; ++i) to[(c + i) * kTile + row] = factor * to_float(pack.values[i]);
    }
  } else {
    for (int c = first; c < whole_quads(from.columns); c += kStep)
      to[c * kTile + row] = exists && c < from.columns ? factor * to_float(line[c]) : 0.0f;
  }
}

/// to[row][column] = from[row][column].
template <typename T>
__device__ inline void load_rows(float* to, const TileSource<T>& from) {
  constexpr int kPack = Pack<T>::kElems;
  if (from.packs) {
    constexpr int kPacks = kTile / kPack;  // of a row
#pragma unroll
    for (int p = int(threadIdx.x); p < kTile * kPacks; p += kBlock) {
      const int row = p / kPacks, c = p % kPacks * kPack;
      if (row >= whole_quads(from.rows) || c >= from.columns) continue;
      Pack<T> pack{};
      if (row < from.rows) pack = load_pack(from.first + row * from.row_stride + c);
      for (int i = 0; i < kPack; i += kQuad) {
        Pack<float> quad;
        for (int k = 0; k < kQuad; ++k) quad.values[k] = to_float(pack.values[i + k]);
        store_pack(to + row * kTile + c + i, quad);
      }
    }
  } else {
    for (int e = int(threadIdx.x); e < kTileElems; e += kBlock) {
      const int row = e / kTile, c = e % kTile;
      if (row >= whole_quads(from.rows) || c >= whole_quads(from.columns)) continue;
      to[e] = row < from.rows && c < from.columns ? to_float(from.first[row * from.row_stride + c])
                                                  : 0.0f;
    }
  }
}

using Sums = float[kQuad][kQuad];  // [row][column] of one thread

/// Where the quad that starts at `column` of row k lies when every thread of a row of the block
/// writes a row of its own: moved so that they meet different banks.
__device__ inline int mixed_column(int k, int column) {
  return column ^ (k / kQuad * kQuad % kTile);
}

/// What of a product lies inside the tensors; each may be more than a tile.
struct Extents {
  std::int64_t rows, columns, summed;
};

/// sums[r][c] += sum over k of a[k][row + r] * b[k][column + c]; quads of `a` lie at mixed_column()
/// where `mixed`.
template <bool mixed>
__device__ inline void multiply_tiles(
    Sums& sums, const float* a, const float* b, const Extents& extents, const HeadBlock& block) {
  if (block.row >= extents.rows || block.column >= extents.columns) return;
  const int end = whole_quads(extents.summed);
  for (int first = 0; first < end; first += kQuad) {
    const int row = mixed ? mixed_column(first, block.row) : block.row;
#pragma unroll
    for (int k = first; k < first + kQuad; ++k) {
      const Pack<float> x = load_pack(a + k * kTile + row);
      const Pack<float> y = load_pack(b + k * kTile + block.column);
#pragma unroll
      for (int r = 0; r < kQuad; ++r)
#pragma unroll
        for (int c = 0; c < kQuad; ++c) sums[r][c] = fmaf(x.values[r], y.values[c], sums[r][c]);
    }
  }
}

/// to[column + c][row + r] = values[r][c], as multiply_tiles<true> reads it.
__device__ inline void store_mixed_columns(float* to, const Sums& values, const HeadBlock& block) {
#pragma unroll
  for (int c = 0; c < kQuad; ++c) {
    Pack<float> quad;
    for (int r = 0; r < kQuad; ++r) quad.values[r] = values[r][c];
    const int k = block.column + c;
    store_pack(to + k * kTile + mixed_column(k, block.row), quad);
  }
}

/// to[row + r][column + c] = values[r][c].
__device__ inline void store_rows(float* to, const Sums& values, const HeadBlock& block) {
#pragma unroll
  for (int r = 0; r < kQuad; ++r) {
    Pack<float> quad;
    for (int c = 0; c < kQuad; ++c) quad.values[c] = values[r][c];
    store_pack(to + (block.row + r) * kTile + block.column, quad);
  }
}

/// Whether weights (query, key), (query, key + 1).. of a head are kept, four at most.
template <int count>
__device__ inline void kept_weights(bool (&kept)[count],
                                    const WeightDropout& dropout,
                                    const AttentionShape& s,
                                    const HeadBlock& block,
                                    std::int64_t query,
                                    std::int64_t key) {
  const auto element = std::uint64_t((block.head * s.tokens + query) * s.tokens + key);
  const std::uint64_t counter =
      (dropout.counters.first_sample() + std::uint64_t(block.sample)) << 32 | element / 4;
  const std::uint64_t step = dropout.counters.step();
  const RandomBlock low = philox(dropout.key, step, counter);
  const unsigned skip = element % 4;
  RandomBlock high{};
  if (skip > 0) high = philox(dropout.key, step, counter + 1);
  std::uint32_t words[7] = {low[0], low[1], low[2], low[3], high[0], high[1], high[2]};
  // Moved in two steps, so that every index is a constant.
  for (int i = 0; i < 5; ++i) words[i] = (skip & 2) != 0 ? words[i + 2] : words[i];
  for (int i = 0; i < kQuad; ++i) words[i] = (skip & 1) != 0 ? words[i + 1] : words[i];
  for (int c = 0; c < count; ++c) kept[c] = words[c] >= dropout.threshold;
}

/// Whether query i of the head sees key j; neither need exist.
__device__ inline bool sees(const AttentionShape& s, std::int64_t i, std::int64_t j) {
  return i < s.tokens && j < s.tokens && (!s.causal || j <= i);
}

/// out[row + r][column + c] = factors[r] * sums[r][c] for rows and columns that exist.
template <typename T>
__device__ inline void store_sums(T* out,
                                  std::int64_t row_stride,
                                  std::int64_t rows,
                                  std::int64_t columns,
                                  const Sums& sums,
                                  const float (&factors)[kQuad],
                                  bool packs,
                                  const HeadBlock& block) {
  if (block.column >= columns) return;
  for (int r = 0; r < kQuad; ++r) {
    if (block.row + r >= rows) return;
    T* const line = out + (block.row + r) * row_stride + block.column;
    Chunk<T, kQuad> quad;
    for (int c = 0; c < kQuad; ++c) quad.values[c] = from_float<T>(factors[r] * sums[r][c]);
    if (packs)
      store_chunk(line, quad);
    else
      for (int c = 0; c < kQuad; ++c)
        if (block.column + c < columns) line[c] = quad.values[c];
  }
}

/// Calls `body` with the slices that a block keeps sums of as a constant.
template <typename Body>
void with_slices(int slices, Body body) {
  if (slices == 1)
    body(std::integral_constant<int, 1>{});
  else
    body(std::integral_constant<int, kMaxSlices>{});
}

}  // namespace lockstep::cuda
