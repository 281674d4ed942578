// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/attention/attention_parts.cuh"
#include "kernels/cuda/mma.cuh"

// Note [Attention on tensor cores]
//
// A block of four warps owns a tile of queries or of keys of one head and walks over the tokens of
// the other kind. A warp owns 16 or 32 tokens, whose rows stay in its registers as a of Note
// [Fragments]; those walked over lie in shared memory, one stage of them while the next is on its
// way (AsyncCopies), so that a stage costs one barrier. A warp works on pairs of its own tokens and
// 16 walked ones. Their product is d of Note [Fragments], owned tokens down, walked ones across,
// which rounded to bf16 is already a of the second product: weights never leave registers.
//
// Rows of shared memory are an odd number of 16 bytes apart, so that the eight rows that ldmatrix
// reads at a time meet all 32 banks, whether transposed or not. A matrix fragment that it brings (4
// clocks of an SM's shared memory) serves 2 instructions with 16 owned tokens, 4 with 32 (1.6
// clocks each, see attention_bwd_mma.cuh): with 32, tensor cores and not shared memory are the
// bound. That is why narrow heads, whose sums leave registers free, have 32.
namespace lockstep::cuda {

inline constexpr int kMmaDepth = 128;
inline constexpr int kMmaWarps = 4;
inline constexpr int kMmaThreads = kMmaWarps * kWarp;

/// Heads of whole packs of up to kMmaDepth columns; tokens are counted in 32 bits.
inline bool fits_mma(const AttentionShape& s) {
  return s.packs && s.depth <= kMmaDepth && s.tokens <= 1 << 30;
}

/// Of heads of up to 16 `steps` columns.
template <int steps>
struct MmaSizes {
  static constexpr int kBlocks = steps <= 4 ? 2 : 1;  ///< sixteens of tokens that a warp owns
  static constexpr int kWarpTokens = 16 * kBlocks;
  static constexpr int kOwned = kMmaWarps * kWarpTokens;  ///< tokens that a block owns
  static constexpr int kWalked = steps <= 4 ? 64 : 32;    ///< tokens of a stage
  static constexpr int kStride = 16 * steps + 8;          ///< elements between rows of a stage
};

/// A stage: rows of the walked tokens of two tensors.
template <int steps>
struct alignas(kPackBytes) MmaStage {
  Bf16 first[MmaSizes<steps>::kWalked * MmaSizes<steps>::kStride];
  Bf16 second[MmaSizes<steps>::kWalked * MmaSizes<steps>::kStride];
};

/// Rows of a warp's tokens, as a of Note [Fragments].
template <int steps>
using OwnRows = std::uint32_t[MmaSizes<steps>::kBlocks][steps][4];
/// Sums over walked tokens for a warp's tokens, as d.
template <int steps>
using OwnSums = float[MmaSizes<steps>::kBlocks][2 * steps][4];
/// A lane's place in fragments.
struct MmaLane {
  int lane = int(threadIdx.x) % kWarp;
  int g = lane / 4, t = lane % 4;
  int matrix = lane / 8, matrix_row = lane % 8;

  /// Of element e of 8 x 8 matrix n: the own token in its sixteen, the walked one.
  __device__ int own(int e) const { return g + 8 * (e / 2); }
  __device__ int walked(int n, int e) const { return 8 * n + 2 * t + e % 2; }
};

/// This thread's warp in its block, by the first lane's word, so that the compiler sees that what
/// is computed from it is the same for all lanes: branches on it need no convergence.
__device__ inline int warp_index() { return __shfl_sync(kAllLanes, int(threadIdx.x) / kWarp, 0); }

template <int steps>
__device__ inline void load_own(OwnRows<steps>& own, const TileSource<Bf16>& from) {
  const MmaLane at;
#pragma unroll
  for (int b = 0; b < MmaSizes<steps>::kBlocks; ++b)
#pragma unroll
    for (int step = 0; step < steps; ++step)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 16 * b + at.g + 8 * (i % 2), column = 16 * step + 2 * at.t + 8 * (i / 2);
        own[b][step][i] = 0;
        if (row < from.rows && column < from.columns)
          own[b][step][i] =
              *reinterpret_cast<const std::uint32_t*>(from.first + row * from.row_stride + column);
      }
}

/// This thread's share of the rows of one tensor of a head: of every stage the same column of
/// every kRowStep-th row. It keeps the address of the next stage's first, and adds to it.
template <int steps>
class StageRows {
  using Sizes = MmaSizes<steps>;
  static constexpr int kPack = Pack<Bf16>::kElems, kPacks = 2 * steps;
  static constexpr int kLanes = kPacks <= 4 ? 4 : kPacks <= 8 ? 8 : 16;  ///< threads of a row
  static constexpr int kRowStep = kMmaThreads / kLanes;
  static_assert(kPacks <= kLanes && Sizes::kWalked % kRowStep == 0);

 public:
  /// `from`: the row of the first walked token, aligned to packs.
  __device__ StageRows(const Bf16* from, std::int64_t row_stride, std::int64_t depth)
      : row_(int(threadIdx.x) / kLanes),
        column_(int(threadIdx.x) % kLanes * kPack),
        depth_(int(depth)),
        step_(kRowStep * row_stride),
        next_(from + row_ * row_stride + column_) {}

  /// Starts to[row][column] = that of the next stage, of which `left` rows exist, zero outside.
  __device__ void start(AsyncCopies& copies, Bf16* to, int left) {
    if (column_ < kPacks * kPack) {
      Bf16* const own = to + row_ * Sizes::kStride + column_;
#pragma unroll
      for (int i = 0; i < Sizes::kWalked / kRowStep; ++i) {
        const bool exists = row_ + i * kRowStep < left && column_ < depth_;
        copies.start<kPackBytes>(own + i * kRowStep * Sizes::kStride, next_, exists);
        next_ += step_;
      }
    }
  }

 private:
  int row_, column_, depth_;
  std::int64_t step_;
  const Bf16* next_;
};

/// Calls use(stage, token) for stages of `walked` tokens from `token` on until `end`; `load` starts
/// the copies of one. `first` < `end`.
template <int walked, typename Stage, typename Load, typename Use>
__device__ inline void walk_stages(int first, int end, Load load, Use use) {
  Stage* const stages = dynamic_shared<Stage>();
  AsyncCopies copies;
  load(copies, stages[0], first);
  int current = 0;
  for (int token = first; token < end; token += walked, current ^= 1) {
    copies.wait();
    __syncthreads();  // all copies of this stage are there, and no thread reads the other one any
                      // more
    if (token + walked < end) load(copies, stages[current ^ 1], token + walked);
    use(stages[current], token);
  }
}

/// Blocks of kOwned tokens of `heads` heads of a sample, and two stages.
template <int steps, typename Stage>
LaunchShape mma_launch_shape(const AttentionShape& s, std::int64_t heads) {
  static_assert(2 * sizeof(Stage) <= 48 << 10);
  const std::int64_t tiles = ceil_div(s.tokens, MmaSizes<steps>::kOwned);
  return {.grid = dim3(unsigned(s.samples * heads * tiles)),
          .block = dim3(kMmaThreads),
          .shared_bytes = 2 * sizeof(Stage)};
}

/// Calls `body` with the sixteens of columns of a head as a constant.
template <typename Body>
void with_steps(std::int64_t depth, Body body) {
  if (depth <= 32)
    body(std::integral_constant<int, 2>{});
  else if (depth <= 64)
    body(std::integral_constant<int, 4>{});
  else if (depth <= 80)
    body(std::integral_constant<int, 5>{});
  else
    body(std::integral_constant<int, kMmaDepth / 16>{});
}

}  // namespace lockstep::cuda
