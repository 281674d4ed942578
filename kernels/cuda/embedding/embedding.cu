// SPDX-License-Identifier: Apache-2.0
#include "core/ops/embedding/embedding.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/embedding/token_order.h"
#include "kernels/cuda/group_access.cuh"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/reduce.cuh"

// Token embedding and its gradients. A thread computes one group of neighbouring columns of one
// row (16 bytes of the operand stored as T, of fp32 in the gradient of the table, where rows allow)
// and walks on by the grid. The gradient of the table adds the rows of each token in order, found
// by a sort (token_order.h), and so has the bits of a loop over all rows; nothing is scattered.
// Bytes: forward y once and twice as much of fp32 tables, mostly from the caches; backward dy once,
// the whole dW once (written), or dW's rows that occur twice where it accumulates. Bound by memory.
// A thread has kAhead rows under way: few, since most tokens have one or two, and what hides their
// latency is many threads. Tokens of 32 rows and more have blocks of their own, whose warps read
// kBatch rows ahead of the threads that add them, so that a token that k rows share costs the
// latency of k / 64 reads one after another, and the sums keep their order.
namespace lockstep::cuda {
namespace {

struct EmbeddingShape {
  std::int64_t samples = 0, tokens = 0, width = 0;
};

EmbeddingShape shape_of(const TensorType& activation) {
  return {activation.shape[0], activation.shape[1], activation.shape[2]};
}

/// `positions` may be null.
template <typename T, int N>
__global__ void embedding_kernel(
    T* y, const std::int32_t* x, const float* table, const float* positions, EmbeddingShape s) {
  wait_for_earlier_work();
  const std::int64_t groups = s.width / N;
  for (std::int64_t item = global_thread(); item < s.samples * s.tokens * groups;
       item += all_threads()) {
    const std::int64_t row = item / groups, column = (item - row * groups) * N;
    Floats<N> sum = load_floats<N>(table + std::int64_t(x[row]) * s.width + column);
    if (positions != nullptr) {
      const Floats<N> p = load_floats<N>(positions + row % s.tokens * s.width + column);
      for (int i = 0; i < N; ++i) sum.values[i] += p.values[i];
    }
    store_floats(y + item * N, sum);
  }
}

/// Rows of dy that a thread reads before it adds the first of them.
constexpr int kAhead = 4;

/// table_grad[v, :] = (accumulate ? table_grad[v, :] : 0) + dy[order[i], :] for i in
/// [offsets[v], offsets[v + 1]), one after another; not for frequent tokens.
template <typename T, int N>
__global__ void __launch_bounds__(kBlock, 6)
    embedding_bwd_tokens_kernel(float* table_grad,
                                const T* dy,
                                const std::int32_t* offsets,
                                const std::int32_t* order,
                                std::int64_t vocabulary,
                                std::int64_t width,
                                bool accumulate) {
  wait_for_earlier_work();
  const std::int64_t groups = width / N;
  for (std::int64_t item = global_thread(); item < vocabulary * groups; item += all_threads()) {
    const std::int64_t token = item / groups;
    const T* const of_column = dy + (item - token * groups) * N;
    const std::int32_t begin = offsets[token], end = offsets[token + 1];
    if ((accumulate && begin == end) || end - begin >= TokenOrder::kFrequent) continue;
    Floats<N> sum{};
    if (accumulate) sum = load_floats<N>(table_grad + item * N);
#pragma unroll 1
    for (std::int32_t i = begin; i < end; i += kAhead) {
      std::int32_t rows[kAhead];
      Group<T, N> read[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k)
        if (i + k < end) rows[k] = order[i + k];
#pragma unroll
      for (int k = 0; k < kAhead; ++k)
        if (i + k < end) read[k] = load_group<N>(of_column + rows[k] * width);
#pragma unroll
      for (int k = 0; k < kAhead; ++k)
        if (i + k < end)
          for (int j = 0; j < N; ++j) sum.values[j] += to_float(read[k].values[j]);
    }
    store_floats(table_grad + item * N, sum);
  }
}

/// Rows that a block of the next kernel reads at a time, and columns that it adds, of groups of N.
constexpr int kBatch = 64, kWarpRows = kBatch / (kBlock / kWarp);
template <int N>
constexpr int kBlockColumns = kWarp* N;

/// The same for frequent tokens: blockIdx.x of them, blockIdx.y of their columns.
template <typename T, int N>
__global__ void __launch_bounds__(kBlock)
    embedding_bwd_frequent_kernel(float* table_grad,
                                  const T* dy,
                                  const std::int32_t* offsets,
                                  const std::int32_t* order,
                                  const std::int32_t* frequent,
                                  std::int64_t width,
                                  bool accumulate) {
  wait_for_earlier_work();
  constexpr int kColumns = kBlockColumns<N>;
  if (std::int32_t(blockIdx.x) >= frequent[0]) return;
  const std::int32_t token = frequent[1 + blockIdx.x];
  const std::int32_t begin = offsets[token], end = offsets[token + 1];
  const int lane = int(threadIdx.x) % kWarp, warp = int(threadIdx.x) / kWarp;
  const std::int64_t first = std::int64_t(blockIdx.y) * kColumns;
  T* const staged = dynamic_shared<T>();  // [kBatch][kColumns]

  // Of the batch ahead this warp's rows, and the numbers of those of the batch after it, a lane
  // each.
  Group<T, N> ahead[kWarpRows];
  const auto row_of = [&](std::int32_t batch) {
    const std::int32_t at = batch + warp * kWarpRows + lane % kWarpRows;
    return at < end ? order[at] : 0;
  };
  std::int32_t rows = row_of(begin);
  const auto read_ahead = [&](std::int32_t batch) {
#pragma unroll
    for (int k = 0; k < kWarpRows; ++k) {
      const std::int32_t row = __shfl_sync(kAllLanes, rows, k);
      if (batch + warp * kWarpRows + k < end && first + lane * N < width)
        ahead[k] = load_group<N>(dy + row * width + first + lane * N);
    }
    rows = row_of(batch + kBatch);
  };

  const int column = int(threadIdx.x);
  const bool adds = column < kColumns && first + column < width;
  float* const result = table_grad + token * width + first + column;
  float sum = adds && accumulate ? *result : 0.0f;
  read_ahead(begin);
  for (std::int32_t batch = begin; batch < end; batch += kBatch) {
    __syncthreads();  // the batch before is added
#pragma unroll
    for (int k = 0; k < kWarpRows; ++k)
      if (batch + warp * kWarpRows + k < end && first + lane * N < width)
        store_group(staged + (warp * kWarpRows + k) * kColumns + lane * N, ahead[k]);
    __syncthreads();
    read_ahead(batch + kBatch);
    if (!adds) continue;
    const int count = end - batch < kBatch ? end - batch : kBatch;
#pragma unroll 8
    for (int r = 0; r < count; ++r) sum += to_float(staged[r * kColumns + column]);
  }
  if (adds) *result = sum;
}

/// positions_grad[t, :] (=|+=) sum over n of dy[n, t, :]; zero where t >= tokens.
template <typename T, int N>
__global__ void embedding_bwd_positions_kernel(
    float* positions_grad, const T* dy, std::int64_t positions, EmbeddingShape s, bool accumulate) {
  wait_for_earlier_work();
  const std::int64_t sample = s.tokens * s.width;
  const std::int64_t items = (accumulate ? s.tokens : positions) * (s.width / N);
  for (std::int64_t item = global_thread(); item < items; item += all_threads()) {
    Floats<N> sum{};
    if (item * N < sample) {
#pragma unroll 8
      for (std::int64_t n = 0; n < s.samples; ++n) {
        const Floats<N> d = load_floats<N>(dy + n * sample + item * N);
        for (int i = 0; i < N; ++i) sum.values[i] += d.values[i];
      }
    }
    if (accumulate) {
      const Floats<N> before = load_floats<N>(positions_grad + item * N);
      for (int i = 0; i < N; ++i) sum.values[i] = before.values[i] + sum.values[i];
    }
    store_floats(positions_grad + item * N, sum);
  }
}

template <typename T>
class EmbeddingKernel final : public BoundKernel {
 public:
  EmbeddingKernel(const ops::Embedding& op, const KernelSpec& spec, const Device& device)
      : BoundKernel(device), shape_(shape_of(spec.outputs[0])), positions_(op.positions()) {}
  void run(const RunState&) override {
    with_width<T>(shape_.width, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      launch("embedding",
             cover(shape_.samples * shape_.tokens * (shape_.width / kWidth)),
             stream(),
             embedding_kernel<T, kWidth>,
             output<T>(0),
             input<std::int32_t>(0),
             input(1),
             positions_ ? input(2) : nullptr,
             shape_);
    });
  }

 private:
  EmbeddingShape shape_;
  bool positions_;
};

template <typename T>
class EmbeddingBwdTokensKernel final : public BoundKernel {
 public:
  EmbeddingBwdTokensKernel(const KernelSpec& spec, const Device& device)
      : BoundKernel(device),
        vocabulary_(spec.outputs[0].shape[0]),
        width_(spec.outputs[0].shape[1]),
        order_(spec.inputs[0].elems(), vocabulary_),
        accumulates_(spec.output_accumulates[0]) {}

  std::size_t workspace_bytes() const override { return order_.workspace_bytes(); }

  void run(const RunState& state) override {
    const void* const sorted = workspace<std::byte>();
    order_.sort(device(), input<std::int32_t>(0), workspace<std::byte>());
    with_width<float>(width_, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      launch("embedding_bwd_tokens",
             cover(vocabulary_ * (width_ / kWidth)),
             stream(),
             embedding_bwd_tokens_kernel<T, kWidth>,
             output(0),
             input<T>(1),
             order_.offsets(sorted),
             order_.order(sorted),
             vocabulary_,
             width_,
             accumulates_ && state.accumulate);
      launch("embedding_bwd_tokens of frequent tokens",
             {.grid = dim3(unsigned(order_.max_frequent()),
                           unsigned(ceil_div(width_, kBlockColumns<kWidth>))),
              .shared_bytes = std::size_t{kBatch} * kBlockColumns<kWidth> * sizeof(T)},
             stream(),
             embedding_bwd_frequent_kernel<T, kWidth>,
             output(0),
             input<T>(1),
             order_.offsets(sorted),
             order_.order(sorted),
             order_.frequent(sorted),
             width_,
             accumulates_ && state.accumulate);
    });
  }

 private:
  std::int64_t vocabulary_, width_;
  TokenOrder order_;
  bool accumulates_;
};

template <typename T>
class EmbeddingBwdPositionsKernel final : public BoundKernel {
 public:
  EmbeddingBwdPositionsKernel(const KernelSpec& spec, const Device& device)
      : BoundKernel(device),
        shape_(shape_of(spec.inputs[0])),
        positions_(spec.outputs[0].shape[0]),
        accumulates_(spec.output_accumulates[0]) {}

  void run(const RunState& state) override {
    with_width<T>(shape_.width, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      launch("embedding_bwd_positions",
             cover(positions_ * (shape_.width / kWidth)),
             stream(),
             embedding_bwd_positions_kernel<T, kWidth>,
             output(0),
             input<T>(0),
             positions_,
             shape_,
             accumulates_ && state.accumulate);
    });
  }

 private:
  EmbeddingShape shape_;
  std::int64_t positions_;
  bool accumulates_;
};

}  // namespace

std::unique_ptr<Kernel> make_embedding_kernel(const ops::Embedding& op,
                                              const KernelSpec& spec,
                                              const Device& device) {
  return make_stored<EmbeddingKernel>(op.output(), op, spec, device);
}

std::unique_ptr<Kernel> make_embedding_bwd_tokens_kernel(const ops::EmbeddingBwdTokens&,
                                                         const KernelSpec& spec,
                                                         const Device& device) {
  return make_stored<EmbeddingBwdTokensKernel>(spec.inputs[1].dtype, spec, device);
}

std::unique_ptr<Kernel> make_embedding_bwd_positions_kernel(const ops::EmbeddingBwdPositions&,
                                                            const KernelSpec& spec,
                                                            const Device& device) {
  return make_stored<EmbeddingBwdPositionsKernel>(spec.inputs[0].dtype, spec, device);
}

}  // namespace lockstep::cuda
