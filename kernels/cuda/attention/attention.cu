// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/ops/attention.h"
#include "kernels/cuda/attention/attention_choice.h"
#include "kernels/cuda/attention/attention_mma.cuh"
#include "kernels/cuda/attention/attention_parts.cuh"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/device/algorithm_cache.h"
#include "kernels/cuda/kernel_list.h"

// A block owns a tile of queries of one head (Note [Tiles of attention]) and walks over the tiles
// of keys that they see, with an online softmax (Dao et al. 2022, algorithm 1): sums and their
// totals are scaled down where a row's maximum grows. Scores live in registers, weights in shared
// memory. Bytes: q and y once, k and v once for each tile of queries, mostly from the L2 cache.
// Bound by fp32 multiply-adds, T T D of them twice, half of that where causal.
namespace lockstep::cuda {
namespace {

/// Threads that share the rows of a product.
constexpr int kRowThreads = kTile / kQuad;

/// Over the threads of a row; all get the result.
template <typename Combine>
__device__ inline float row_reduce(float value, Combine combine) {
  for (int distance = kRowThreads / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(kAllLanes, value, distance));
  return value;
}

/// The larger one; a NaN loses, and comes back when its score is exponentiated.
struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <typename T>
struct AttentionArgs {
  const T* qkv = nullptr;
  T* y = nullptr;
  float* lse = nullptr;
};

struct RowState {
  float top[kQuad];    // largest score so far
  float total[kQuad];  // sum of e^(score - top)
};

/// Scores to weights e^(s - top), zero where a key is not seen; the state of the rows moves on, and
/// factors[r] is what earlier sums are to be scaled by.
__device__ inline void softmax_tile(Sums& scores,
                                    RowState& state,
                                    float (&factors)[kQuad],
                                    const AttentionShape& s,
                                    const HeadBlock& block,
                                    std::int64_t key) {
#pragma unroll
  for (int r = 0; r < kQuad; ++r) {
    const std::int64_t query = block.first_token + block.row + r;
    float top = state.top[r];
    for (int c = 0; c < kQuad; ++c)
      if (sees(s, query, key + block.column + c)) top = fmaxf(top, scores[r][c]);
    top = row_reduce(top, Larger{});
    float total = 0;
    for (int c = 0; c < kQuad; ++c) {
      scores[r][c] = sees(s, query, key + block.column + c) ? expf(scores[r][c] - top) : 0.0f;
      total += scores[r][c];
    }
    factors[r] = query < s.tokens ? expf(state.top[r] - top) : 0.0f;
    state.total[r] = state.total[r] * factors[r] + row_reduce(total, Sum{});
    state.top[r] = top;
  }
}

__device__ inline void drop_weights(Sums& weights,
                                    const WeightDropout& dropout,
                                    const AttentionShape& s,
                                    const HeadBlock& block,
                                    std::int64_t key) {
#pragma unroll
  for (int r = 0; r < kQuad; ++r) {
    bool kept[kQuad];
    kept_weights(kept, dropout, s, block, block.first_token + block.row + r, key + block.column);
    for (int c = 0; c < kQuad; ++c) weights[r][c] = kept[c] ? weights[r][c] : 0.0f;
  }
}

template <typename T, int slices, typename Dropout>
__global__ void __launch_bounds__(kBlock, slices == 1 ? 2 : 1)
    attention_kernel(AttentionArgs<T> a, AttentionShape s, Dropout dropout) {
  wait_for_earlier_work();
  float* const queries = dynamic_shared<float>();  // [column][query]
  float* const keys = queries + kTileElems;        // [column][key], then values [key][column]
  float* const weights = keys + kTileElems;        // [key][query]
  const HeadBlock block(s, s.causal);
  const std::int64_t row_stride = s.packed_row(), first = block.first_token;
  const auto source = [&](int part, std::int64_t token, int column) {
    return TileSource<T>{a.qkv + block.packed(s, part, token) + column,
                         row_stride,
                         s.tokens - token,
                         s.depth - column,
                         s.packs};
  };

  Sums sums[slices] = {};
  RowState state;
  for (int r = 0; r < kQuad; ++r) {
    state.top[r] = -INFINITY;
    state.total[r] = 0;
  }
  const std::int64_t seen = first + kTile;
  const std::int64_t key_end = s.causal && seen < s.tokens ? seen : s.tokens;
  for (std::int64_t key = 0; key < key_end; key += kTile) {
    Sums scores = {};
    for (int column = 0; column < s.depth; column += kTile) {
      __syncthreads();
      // Of heads of one tile's width, queries stay.
      if (key == 0 || s.depth > kTile) load_columns(queries, source(0, first, column), s.scale);
      load_columns(keys, source(1, key, column), 1.0f);
      __syncthreads();
      multiply_tiles<false>(
          scores, queries, keys, {s.tokens - first, s.tokens - key, s.depth - column}, block);
    }
    float factors[kQuad];
    softmax_tile(scores, state, factors, s, block, key);
    if constexpr (Dropout::kDrops) drop_weights(scores, dropout, s, block, key);
    store_mixed_columns(weights, scores, block);
#pragma unroll
    for (int slice = 0; slice < slices; ++slice) {
      const int column = (block.first_slice + slice) * kTile;
      if (column >= s.depth) continue;
      __syncthreads();
      load_rows(keys, source(2, key, column));
      __syncthreads();
      for (int r = 0; r < kQuad; ++r)
        for (int c = 0; c < kQuad; ++c) sums[slice][r][c] *= factors[r];
      multiply_tiles<true>(
          sums[slice], weights, keys, {s.tokens - first, s.depth - column, s.tokens - key}, block);
    }
  }

  float inverse[kQuad];
  for (int r = 0; r < kQuad; ++r) inverse[r] = dropout.scale / state.total[r];
#pragma unroll
  for (int slice = 0; slice < slices; ++slice) {
    const int column = (block.first_slice + slice) * kTile;
    store_sums(a.y + block.plain(s, first) + column,
               s.heads * s.depth,
               s.tokens - first,
               s.depth - column,
               sums[slice],
               inverse,
               s.packs,
               block);
  }
  if (block.column > 0 || block.first_slice > 0) return;
  for (int r = 0; r < kQuad; ++r)
    if (first + block.row + r < s.tokens)
      a.lse[block.statistic(s, first + block.row + r)] = state.top[r] + logf(state.total[r]);
}

template <typename T>
class AttentionKernel final : public BoundKernel {
 public:
  AttentionKernel(const ops::Attention& op, const KernelSpec& spec, const Device& device)
      : BoundKernel(device),
        shape_(op.attrs(), spec.inputs[0], Pack<T>::kElems),
        rate_(op.attrs().dropout),
        path_(spec.path),
        fused_(choose_attention(device, spec, op.attrs(), own())) {
    if (!fused_ && !(std::is_same_v<T, Bf16> && fits_mma(shape_)))
      device.algorithms->note_slow(
          fmt::format("{} {}", name_of(spec.op.kind()), spec.path),
          fmt::format("attention and its gradient by fp32 multiply-adds, far slower than on tensor "
                      "cores, which take bf16 with heads of up to {} columns, a multiple of {}: "
                      "these are {}, with heads of {}",
                      kMmaDepth,
                      Pack<Bf16>::kElems,
                      name_of(spec.inputs[0].dtype),
                      shape_.depth));
  }

  std::size_t workspace_bytes() const override { return fused_ ? fused_->workspace_bytes() : 0; }

  void run(const RunState& state) override {
    const AttentionArgs<T> args{input<T>(0), output<T>(0), output(1)};
    if (fused_) {
      fused_->run(
          FusedAttentionArguments{args.qkv, args.y, args.lse, nullptr, nullptr, workspace<void>()});
      return;
    }
    with_dropout(rate_, path_, state, [&](const auto& dropout) { start(args, dropout); });
  }

 private:
  OwnAttention own() const {
    return {[this](const FusedAttentionArguments& a) {
              start(AttentionArgs<T>{static_cast<const T*>(a.qkv), static_cast<T*>(a.y), a.lse},
                    NoDropout{});
            },
            0};
  }

  template <typename Dropout>
  void start(const AttentionArgs<T>& args, const Dropout& dropout) const {
    if constexpr (std::is_same_v<T, Bf16>)
      if (fits_mma(shape_)) {
        start_attention_mma(
            AttentionMmaArgs{args.qkv, args.y, args.lse}, shape_, dropout, stream());
        return;
      }
    with_slices(shape_.slices(), [&](auto slices) {
      launch("attention",
             shape_.launch_shape(shape_.heads),
             stream(),
             attention_kernel<T, slices, Dropout>,
             args,
             shape_,
             dropout);
    });
  }

  AttentionShape shape_;
  float rate_;
  std::string path_;
  std::unique_ptr<FusedAttention> fused_;  ///< null: the own kernels run
};

}  // namespace

std::unique_ptr<Kernel> make_attention_kernel(const ops::Attention& op,
                                              const KernelSpec& spec,
                                              const Device& device) {
  return make_stored<AttentionKernel>(spec.inputs[0].dtype, op, spec, device);
}

}  // namespace lockstep::cuda
