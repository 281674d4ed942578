// SPDX-License-Identifier: Apache-2.0
#include "core/ops/attention.h"
#include "kernels/cuda/attention/attention_bwd_mma.cuh"
#include "kernels/cuda/attention/attention_choice.h"
#include "kernels/cuda/attention/attention_parts.cuh"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/kernel_list.h"

// dy . y of every row; then for bf16 the kernels of attention_bwd_mma.cuh where they fit, otherwise
// two more: dk and dv, where a block owns a tile of keys (Note [Tiles of attention]) and walks over
// the queries that see them, head by head of a group; dq, where it owns a tile of queries and walks
// over the keys. Both compute the weights again from the scores and lse, so that no sum needs an
// order among blocks. Bytes of these two: every tensor about once for each tile of tokens, mostly
// from the L2 cache. Bound by fp32 multiply-adds: T T D of them seven times, half of that where
// causal.
namespace lockstep::cuda {
namespace {

template <typename T>
struct AttentionBwdArgs {
  const T* qkv = nullptr;
  const T* y = nullptr;
  const T* dy = nullptr;
  const float* lse = nullptr;
  T* dqkv = nullptr;
  float* deltas = nullptr;  // [samples, heads, tokens]: dy . y
};

/// Threads that share a row of deltas_kernel.
constexpr int kDeltaThreads = 8;

template <typename T>
__global__ void deltas_kernel(AttentionBwdArgs<T> a, AttentionShape s) {
  wait_for_earlier_work();
  const int lane = int(threadIdx.x) % kDeltaThreads;
  const std::int64_t rows = s.samples * s.tokens * s.heads;
  const std::int64_t row = global_thread() / kDeltaThreads;  // of y as [samples tokens heads, D]
  float sum = 0;
  if (row < rows) {
    const T *const y = a.y + row * s.depth, *const dy = a.dy + row * s.depth;
    constexpr int kPack = Pack<T>::kElems;
    if (s.packs) {
      for (std::int64_t d = lane * kPack; d < s.depth; d += kDeltaThreads * kPack) {
        const Pack<T> p = load_pack(y + d), q = load_pack(dy + d);
        for (int i = 0; i < kPack; ++i)
          sum = fmaf(to_float(p.values[i]), to_float(q.values[i]), sum);
      }
    } else {
      for (std::int64_t d = lane; d < s.depth; d += kDeltaThreads)
        sum = fmaf(to_float(y[d]), to_float(dy[d]), sum);
    }
  }
  for (int distance = kDeltaThreads / 2; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(kAllLanes, sum, distance);
  if (row >= rows || lane > 0) return;
  const std::int64_t head = row % s.heads, token = row / s.heads;
  a.deltas[(token / s.tokens * s.heads + head) * s.tokens + token % s.tokens] = sum;
}

/// Loads tiles of a head's tensors.
template <typename T>
struct HeadTiles {
  const AttentionBwdArgs<T>& a;
  const AttentionShape& s;
  const HeadBlock& block;

  __device__ TileSource<T> packed(int part, std::int64_t token, int column) const {
    return {a.qkv + block.packed(s, part, token) + column,
            s.packed_row(),
            s.tokens - token,
            s.depth - column,
            s.packs};
  }
  __device__ TileSource<T> gradient(std::int64_t token, int column) const {
    return {a.dy + block.plain(s, token) + column,
            s.heads * s.depth,
            s.tokens - token,
            s.depth - column,
            s.packs};
  }
};

/// Of a tile of queries and one of keys, the weights after dropout, and the gradients of the scores
/// before the factor 1 / sqrt(D); both zero where a key is not seen. `left` and `right` are tiles
/// of shared memory that other threads may still be reading.
template <typename T, typename Dropout>
__device__ inline void weights_and_gradients(Sums& weights,
                                             Sums& gradients,
                                             const HeadTiles<T>& tiles,
                                             const Dropout& dropout,
                                             std::int64_t first_query,
                                             std::int64_t first_key,
                                             float* left,
                                             float* right) {
  const AttentionShape& s = tiles.s;
  const HeadBlock& block = tiles.block;
  for (int column = 0; column < s.depth; column += kTile) {
    const Extents extents{s.tokens - first_query, s.tokens - first_key, s.depth - column};
    __syncthreads();
    load_columns(left, tiles.packed(0, first_query, column), s.scale);
    load_columns(right, tiles.packed(1, first_key, column), 1.0f);
    __syncthreads();
    multiply_tiles<false>(weights, left, right, extents, block);
    __syncthreads();
    load_columns(left, tiles.gradient(first_query, column), 1.0f);
    load_columns(right, tiles.packed(2, first_key, column), 1.0f);
    __syncthreads();
    multiply_tiles<false>(gradients, left, right, extents, block);
  }
#pragma unroll
  for (int r = 0; r < kQuad; ++r) {
    const std::int64_t query = first_query + block.row + r;
    const bool exists = query < s.tokens;
    const float lse = exists ? tiles.a.lse[block.statistic(s, query)] : 0.0f;
    const float delta = exists ? tiles.a.deltas[block.statistic(s, query)] : 0.0f;
    bool kept[kQuad] = {true, true, true, true};
    if constexpr (Dropout::kDrops)
      kept_weights(kept, dropout, s, block, query, first_key + block.column);
    for (int c = 0; c < kQuad; ++c) {
      const bool seen = sees(s, query, first_key + block.column + c);
      const float p = seen ? expf(weights[r][c] - lse) : 0.0f;
      const float dp = kept[c] ? gradients[r][c] * dropout.scale : 0.0f;
      weights[r][c] = kept[c] ? p * dropout.scale : 0.0f;
      gradients[r][c] = seen ? p * (dp - delta) : 0.0f;
    }
  }
}

template <typename T, int slices, typename Dropout>
__global__ void __launch_bounds__(kBlock, 1)
    attention_bwd_keys_kernel(AttentionBwdArgs<T> a, AttentionShape s, Dropout dropout) {
  wait_for_earlier_work();
  float* const left = dynamic_shared<float>();
  float* const right = left + kTileElems;
  float* const weights = right + kTileElems;  // [query][key]
  HeadBlock block = HeadBlock::of_keys(s);
  const HeadTiles<T> tiles{a, s, block};
  const std::int64_t key = block.first_token;
  Sums dk[slices] = {}, dv[slices] = {};
  const auto add_block = [&](std::int64_t query) {
    Sums p = {}, ds = {};
    weights_and_gradients(p, ds, tiles, dropout, query, key, left, right);
    const auto add = [&](Sums(&sums)[slices], const Sums& factors, bool queries) {
      __syncthreads();
      store_rows(weights, factors, block);
#pragma unroll
      for (int slice = 0; slice < slices; ++slice) {
        const int column = (block.first_slice + slice) * kTile;
        if (column >= s.depth) continue;
        __syncthreads();
        load_rows(left, queries ? tiles.packed(0, query, column) : tiles.gradient(query, column));
        __syncthreads();
        multiply_tiles<false>(sums[slice],
                              weights,
                              left,
                              {s.tokens - key, s.depth - column, s.tokens - query},
                              block);
      }
    };
    add(dv, p, false);
    add(dk, ds, true);
  };
  for (int member = 0; member < s.group; ++member, ++block.head)
    for (std::int64_t query = s.causal ? key : 0; query < s.tokens; query += kTile)
      add_block(query);
  const float ones[kQuad] = {1, 1, 1, 1}, scales[kQuad] = {s.scale, s.scale, s.scale, s.scale};
#pragma unroll
  for (int slice = 0; slice < slices; ++slice) {
    const int column = (block.first_slice + slice) * kTile;
    const auto store = [&](int part, const Sums& sums, const float(&factors)[kQuad]) {
      store_sums(a.dqkv + block.packed(s, part, key) + column,
                 s.packed_row(),
                 s.tokens - key,
                 s.depth - column,
                 sums,
                 factors,
                 s.packs,
                 block);
    };
    store(1, dk[slice], scales);
    store(2, dv[slice], ones);
  }
}

template <typename T, int slices, typename Dropout>
__global__ void __launch_bounds__(kBlock, slices == 1 ? 2 : 1)
    attention_bwd_queries_kernel(AttentionBwdArgs<T> a, AttentionShape s, Dropout dropout) {
  wait_for_earlier_work();
  float* const left = dynamic_shared<float>();
  float* const right = left + kTileElems;
  float* const gradients = right + kTileElems;  // [key][query]
  const HeadBlock block(s, s.causal);
  const HeadTiles<T> tiles{a, s, block};
  const std::int64_t query = block.first_token, seen = query + kTile;
  const std::int64_t key_end = s.causal && seen < s.tokens ? seen : s.tokens;
  Sums dq[slices] = {};
  for (std::int64_t key = 0; key < key_end; key += kTile) {
    Sums p = {}, ds = {};
    weights_and_gradients(p, ds, tiles, dropout, query, key, left, right);
    store_mixed_columns(gradients, ds, block);
#pragma unroll
    for (int slice = 0; slice < slices; ++slice) {
      const int column = (block.first_slice + slice) * kTile;
      if (column >= s.depth) continue;
      __syncthreads();
      load_rows(right, tiles.packed(1, key, column));
      __syncthreads();
      multiply_tiles<true>(
          dq[slice], gradients, right, {s.tokens - query, s.depth - column, s.tokens - key}, block);
    }
  }
  const float scales[kQuad] = {s.scale, s.scale, s.scale, s.scale};
#pragma unroll
  for (int slice = 0; slice < slices; ++slice) {
    const int column = (block.first_slice + slice) * kTile;
    store_sums(a.dqkv + block.packed(s, 0, query) + column,
               s.packed_row(),
               s.tokens - query,
               s.depth - column,
               dq[slice],
               scales,
               s.packs,
               block);
  }
}

template <typename T>
class AttentionBwdKernel final : public BoundKernel {
 public:
  AttentionBwdKernel(const ops::AttentionBwd& op, const KernelSpec& spec, const Device& device)
      : BoundKernel(device),
        shape_(op.attrs(), spec.inputs[0], Pack<T>::kElems),
        rate_(op.attrs().dropout),
        path_(spec.path),
        fused_(choose_attention(device, spec, op.attrs(), own())) {}

  std::size_t workspace_bytes() const override {
    return fused_ ? fused_->workspace_bytes() : deltas_bytes();
  }

  void run(const RunState& state) override {
    const AttentionBwdArgs<T> args{.qkv = input<T>(0),
                                   .y = input<T>(1),
                                   .dy = input<T>(2),
                                   .lse = input(3),
                                   .dqkv = output<T>(0),
                                   .deltas = workspace<float>()};
    if (fused_) {
      fused_->run(FusedAttentionArguments{args.qkv,
                                          const_cast<T*>(args.y),
                                          const_cast<float*>(args.lse),
                                          args.dy,
                                          args.dqkv,
                                          workspace<void>()});
      return;
    }
    with_dropout(rate_, path_, state, [&](const auto& dropout) { start(args, dropout); });
  }

 private:
  std::int64_t rows() const { return shape_.samples * shape_.heads * shape_.tokens; }
  std::size_t deltas_bytes() const { return std::size_t(rows()) * sizeof(float); }

  OwnAttention own() const {
    return {[this](const FusedAttentionArguments& a) {
              start(AttentionBwdArgs<T>{static_cast<const T*>(a.qkv),
                                        static_cast<const T*>(a.y),
                                        static_cast<const T*>(a.dy),
                                        a.lse,
                                        static_cast<T*>(a.dqkv),
                                        static_cast<float*>(a.workspace)},
                    NoDropout{});
            },
            deltas_bytes()};
  }

  template <typename Dropout>
  void start(const AttentionBwdArgs<T>& args, const Dropout& dropout) const {
    launch("attention_bwd deltas",
           {.grid = dim3(unsigned(ceil_div(rows() * kDeltaThreads, kBlock)))},
           stream(),
           deltas_kernel<T>,
           args,
           shape_);
    if constexpr (std::is_same_v<T, Bf16>)
      if (fits_mma(shape_)) {
        start_attention_bwd_mma(
            {args.qkv, args.dy, args.lse, args.deltas, args.dqkv}, shape_, dropout, stream());
        return;
      }
    with_slices(shape_.slices(), [&](auto slices) {
      launch("attention_bwd keys",
             shape_.launch_shape(shape_.kv_heads),
             stream(),
             attention_bwd_keys_kernel<T, slices, Dropout>,
             args,
             shape_,
             dropout);
      launch("attention_bwd queries",
             shape_.launch_shape(shape_.heads),
             stream(),
             attention_bwd_queries_kernel<T, slices, Dropout>,
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

std::unique_ptr<Kernel> make_attention_bwd_kernel(const ops::AttentionBwd& op,
                                                  const KernelSpec& spec,
                                                  const Device& device) {
  return make_stored<AttentionBwdKernel>(spec.inputs[0].dtype, op, spec, device);
}

}  // namespace lockstep::cuda
