// SPDX-License-Identifier: Apache-2.0
#include "core/ops/embedding.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/group_access.cuh"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/token_order.h"

// Token embedding and its gradients. A thread computes one group of neighbouring columns of one
// row (16 bytes of the operand stored as T, of fp32 in the gradient of the table, where rows allow)
// and walks on by the grid. The gradient of the table adds the rows of each token in order, found
// by a sort (token_order.h), and so has the bits of a loop over all rows; nothing is scattered.
// Bytes: forward y once and twice as much of fp32 tables, mostly from the caches; backward dy once,
// the whole dW once (written), or dW's rows that occur twice where it accumulates. Bound by memory;
// a token that k rows share by the latency of k / 8 reads one after another.
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

/// table_grad[v, :] = (accumulate ? table_grad[v, :] : 0) + dy[order[i], :] for i in
/// [offsets[v], offsets[v + 1]), one after another.
template <typename T, int N>
__global__ void embedding_bwd_tokens_kernel(float* table_grad,
                                            const T* dy,
                                            const std::int32_t* offsets,
                                            const std::int32_t* order,
                                            std::int64_t vocabulary,
                                            std::int64_t width,
                                            bool accumulate) {
  const std::int64_t groups = width / N;
  for (std::int64_t item = global_thread(); item < vocabulary * groups; item += all_threads()) {
    const std::int64_t token = item / groups, column = (item - token * groups) * N;
    const std::int32_t begin = offsets[token], end = offsets[token + 1];
    if (accumulate && begin == end) continue;
    Floats<N> sum{};
    if (accumulate) sum = load_floats<N>(table_grad + item * N);
#pragma unroll 8
    for (std::int32_t i = begin; i < end; ++i) {
      const Floats<N> d = load_floats<N>(dy + order[i] * width + column);
      for (int j = 0; j < N; ++j) sum.values[j] += d.values[j];
    }
    store_floats(table_grad + item * N, sum);
  }
}

/// positions_grad[t, :] (=|+=) sum over n of dy[n, t, :]; zero where t >= tokens.
template <typename T, int N>
__global__ void embedding_bwd_positions_kernel(
    float* positions_grad, const T* dy, std::int64_t positions, EmbeddingShape s, bool accumulate) {
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
