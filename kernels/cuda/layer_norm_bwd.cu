// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <type_traits>

#include "core/ops/norms/layer_norm.h"
#include "core/ops/norms/rms_norm.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/reduce.cuh"

// Layer normalisation's, and root-mean-square normalisation's, which is not centred.
// Columns are spread over the threads of a block, which walks over its rows two at a time: each
// thread keeps the sums of dgamma and dbeta of its columns in registers while the block writes dh.
// All that a row needs is read before its sums, so that one wait for memory serves them; other
// blocks of the multiprocessor fill it. At the end every block has a partial sum in the workspace;
// a second kernel adds these in a fixed order. Which rows are a block's is a function of the shape
// alone. Bytes: h, dy, dh, and dh_in with a residual, once; the partial sums are a few percent of
// that. Bound by memory.
namespace lockstep::cuda {
namespace {

constexpr int kMaxThreads = 512, kFewThreads = 256;
constexpr std::int64_t kHeldColumns = 8192;
constexpr int kRows = 2;  // walked over at a time
/// Partial sums at most: so many blocks that each multiprocessor of the largest devices has this
/// many threads, or four blocks.
constexpr std::int64_t kMultiprocessors = 132, kThreadsWanted = 768;
/// Columns and slices of the parts that a block of the second kernel adds: 32 bytes of a row, which
/// is what memory is read by, and so many blocks that 768 columns fill a device.
constexpr int kSumColumns = 8, kSumSlices = kBlock / kSumColumns;

template <typename T>
struct LayerNormBwdArgs {
  const T* h = nullptr;
  const T* dy = nullptr;
  const float* gamma = nullptr;
  const float* saved = nullptr;  // [rows, 2]; not centred: [rows]
  const T* dh_in = nullptr;      // null: none
  T* dh = nullptr;               // may be dy
  float* parts = nullptr;        // [blocks, 2, width]
  std::int64_t rows = 0, width = 0;
};

/// What rows need from all their columns: of each the sums of g and of g xhat.
template <int rows>
using RowSums = Chunk<float, 2 * rows>;

/// Sums over the block. As many lanes as there are sums end up with one each: of the two halves of
/// what a lane has, it hands one over at each of the first steps, so that these cost one exchange a
/// sum together. `shared`: that of one iteration, [warps]; the next has another one, so that one
/// barrier will do.
template <int rows>
__device__ inline void block_sums(RowSums<rows>& sums, RowSums<rows>* shared) {
  constexpr int kSums = 2 * rows;
  static_assert((kSums & (kSums - 1)) == 0 && kSums <= kWarp);
  const int lane = int(threadIdx.x) % kWarp;
  int distance = kWarp / 2;
#pragma unroll
  for (int half = kSums / 2; half > 0; half /= 2, distance /= 2) {
    const bool upper = (lane & distance) != 0;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float given = upper ? sums.values[i] : sums.values[i + half];
      const float kept = upper ? sums.values[i + half] : sums.values[i];
      sums.values[i] = kept + __shfl_xor_sync(kAllLanes, given, distance);
    }
  }
  float sum = sums.values[0];
#pragma unroll
  for (; distance > 0; distance /= 2) sum += __shfl_xor_sync(kAllLanes, sum, distance);
  constexpr int kLanes = kWarp / kSums;  // that have the same sum
  if (lane % kLanes == 0) shared[threadIdx.x / kWarp].values[lane / kLanes] = sum;
  __syncthreads();
  sums = shared[0];
#pragma unroll 1
  for (int warp = 1; warp < int(blockDim.x) / kWarp; ++warp) {
    const RowSums<rows> other = shared[warp];
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums.values[i] += other.values[i];
  }
}

/// The sums of dgamma and dbeta of this thread's columns: in registers, or where `steps` is 0 in
/// the block's part of the workspace.
template <int steps, int width>
class ColumnSums {
 public:
  __device__ ColumnSums(float* part, std::int64_t columns) : part_(part), columns_(columns) {
    if constexpr (steps == 0)
      for_columns<0, width>(int(threadIdx.x), int(blockDim.x), columns, [&](int, std::int64_t c) {
        write(c, {}, {});
      });
  }
  /// Of a row: dy and xhat of some columns.
  __device__ void add(int step,
                      std::int64_t column,
                      const Chunk<float, width>& dy,
                      const Chunk<float, width>& normal) {
    if constexpr (steps > 0) {
      add_to(gammas_[step], betas_[step], dy, normal);
    } else {
      Chunk<float, width> gammas = load_chunk<width>(part_ + column);
      Chunk<float, width> betas = load_chunk<width>(part_ + columns_ + column);
      add_to(gammas, betas, dy, normal);
      write(column, gammas, betas);
    }
  }
  __device__ void finish() {
    if constexpr (steps > 0)
      for_columns<steps, width>(
          int(threadIdx.x), int(blockDim.x), columns_, [&](int step, std::int64_t column) {
            write(column, gammas_[step], betas_[step]);
          });
  }

 private:
  __device__ static void add_to(Chunk<float, width>& gammas,
                                Chunk<float, width>& betas,
                                const Chunk<float, width>& dy,
                                const Chunk<float, width>& normal) {
    for (int i = 0; i < width; ++i) {
      gammas.values[i] = fmaf(dy.values[i], normal.values[i], gammas.values[i]);
      betas.values[i] += dy.values[i];
    }
  }
  __device__ void write(std::int64_t column,
                        const Chunk<float, width>& gamma,
                        const Chunk<float, width>& beta) {
    store_chunk(part_ + column, gamma);
    store_chunk(part_ + columns_ + column, beta);
  }

  float* part_;
  std::int64_t columns_;
  Chunk<float, width> gammas_[steps > 0 ? steps : 1] = {};
  Chunk<float, width> betas_[steps > 0 ? steps : 1] = {};
};

/// Keeps the compiler from holding what it has computed of `chunk`: it computes it again from these
/// few registers.
template <typename T, int width>
__device__ inline void hold_packed(Chunk<T, width>& chunk) {
  if constexpr (sizeof(T) < sizeof(float) && sizeof(chunk) % sizeof(std::uint32_t) == 0) {
    auto* const words = reinterpret_cast<std::uint32_t*>(&chunk);
#pragma unroll
    for (std::size_t i = 0; i < sizeof(chunk) / sizeof(std::uint32_t); ++i)
      asm volatile("" : "+r"(words[i]));
  }
}

/// Some columns of a row.
template <typename T, int width>
struct RowColumns {
  Chunk<T, width> h, dy, added;
  __device__ void load(const LayerNormBwdArgs<T>& a, std::int64_t at) {
    h = load_chunk<width>(a.h + at);
    dy = load_chunk<width>(a.dy + at);
    if (a.dh_in != nullptr)
      added = load_chunk<width>(a.dh_in + at);
    else
      added = {};
  }
};

/// `rows` rows are walked over at a time, so that their loads are under way together. Of blocks of
/// up to kFewThreads a multiprocessor holds three at least: 80 registers a thread.
template <typename T, int steps, int width, int rows, int most, bool centered>
__global__ void __launch_bounds__(most, most == kFewThreads ? 3 : 1)
    layer_norm_bwd_kernel(LayerNormBwdArgs<T> a) {
  wait_for_earlier_work();
  constexpr int kHeld = steps > 0 ? steps : 1;
  const int lane = int(threadIdx.x), threads = int(blockDim.x);
  const float share = 1.0f / float(a.width);
  ColumnSums<steps, width> column_sums(a.parts + blockIdx.x * 2 * a.width, a.width);
  HeldRow<float, steps == 1 ? 1 : 0, width> gammas(a.gamma);
  if constexpr (steps == 1)
    for_columns<1, width>(
        lane, threads, a.width, [&](int, std::int64_t column) { gammas.hold(0, column); });
  RowSums<rows>* shared = dynamic_shared<RowSums<rows>>();
  int other = threads / kWarp;  // from this iteration's part of it to the next one's
  for (std::int64_t first = std::int64_t(blockIdx.x) * rows; first < a.rows;
       first += std::int64_t(gridDim.x) * rows, shared += other, other = -other) {
    RowColumns<T, width> row[rows][kHeld];
    RowSums<rows> sums{};
    float mean[rows], rstd[rows];
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      if (first + r >= a.rows) continue;
      if constexpr (steps > 0)
        for_columns<steps, width>(lane, threads, a.width, [&](int step, std::int64_t column) {
          row[r][step].load(a, (first + r) * a.width + column);
        });
      if constexpr (centered) {
        const Chunk<float, 2> saved = load_chunk<2>(a.saved + 2 * (first + r));
        mean[r] = saved.values[0];
        rstd[r] = saved.values[1];
      } else {
        mean[r] = 0;
        rstd[r] = a.saved[first + r];
      }
    }
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      if (first + r >= a.rows) continue;
      for_columns<steps, width>(lane, threads, a.width, [&](int step, std::int64_t column) {
        if constexpr (steps == 0) row[r][0].load(a, (first + r) * a.width + column);
        const Chunk<float, width> gamma = gammas.get(0, column);
        Chunk<float, width> dy, normal;
        for (int i = 0; i < width; ++i) {
          dy.values[i] = to_float(row[r][step].dy.values[i]);
          const float h = to_float(row[r][step].h.values[i]);
          normal.values[i] = (centered ? h - mean[r] : h) * rstd[r];
          const float g = dy.values[i] * gamma.values[i];
          if constexpr (centered) sums.values[2 * r] += g;
          sums.values[2 * r + 1] = fmaf(g, normal.values[i], sums.values[2 * r + 1]);
        }
        column_sums.add(step, column, dy, normal);
      });
    }
    block_sums<rows>(sums, shared);
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      if (first + r >= a.rows) continue;
      // dh = rstd (g - mean of g - xhat (mean of g xhat)) + dh_in, with what a row shares taken
      // out.
      const float of_ones = -rstd[r] * (sums.values[2 * r] * share);
      const float of_centered = -rstd[r] * rstd[r] * (sums.values[2 * r + 1] * share);
      for_columns<steps, width>(lane, threads, a.width, [&](int step, std::int64_t column) {
        const std::int64_t at = (first + r) * a.width + column;
        if constexpr (steps == 0) row[r][0].load(a, at);
        hold_packed(row[r][step].h);
        hold_packed(row[r][step].dy);
        const Chunk<float, width> gamma = gammas.get(0, column);
        Chunk<T, width> result;
        for (int i = 0; i < width; ++i) {
          const float g = to_float(row[r][step].dy.values[i]) * gamma.values[i];
          const float h = to_float(row[r][step].h.values[i]);
          const float d = fmaf(centered ? h - mean[r] : h,
                               of_centered,
                               centered ? fmaf(g, rstd[r], of_ones) : g * rstd[r]);
          result.values[i] = from_float<T>(d + to_float(row[r][step].added.values[i]));
        }
        store_chunk(a.dh + at, result);
      });
    }
  }
  column_sums.finish();
}

struct ColumnResult {
  float* out = nullptr;  // [width]; null: not wanted
  bool accumulate = false;
};

/// dgamma (blockIdx.y 0) and dbeta (1) from the parts: every slice adds its share of them, then the
/// slices are added in order.
__global__ void add_parts_kernel(ColumnResult dgamma,
                                 ColumnResult dbeta,
                                 const float* parts,
                                 std::int64_t part_count,
                                 std::int64_t width) {
  wait_for_earlier_work();
  const ColumnResult result = blockIdx.y == 0 ? dgamma : dbeta;
  const int lane = int(threadIdx.x) % kSumColumns, slice = int(threadIdx.x) / kSumColumns;
  const std::int64_t column = std::int64_t(blockIdx.x) * kSumColumns + lane;
  double* const slices = dynamic_shared<double>();
  double sum = 0;
  if (column < width)
    for (std::int64_t p = slice; p < part_count; p += kSumSlices)
      sum += double(parts[(2 * p + blockIdx.y) * width + column]);
  slices[threadIdx.x] = sum;
  __syncthreads();
  if (slice > 0 || column >= width || result.out == nullptr) return;
  for (int s = 1; s < kSumSlices; ++s) sum += slices[s * kSumColumns + lane];
  result.out[column] = result.accumulate ? result.out[column] + float(sum) : float(sum);
}

bool has_bias(const ops::LayerNormBwd& op) { return op.bias(); }
bool has_bias(const ops::RmsNormBwd&) { return false; }

template <typename T, typename Op>
class LayerNormBwdKernel final : public BoundKernel {
  static constexpr bool kCentered = std::is_same_v<Op, ops::LayerNormBwd>;

 public:
  LayerNormBwdKernel(const Op& op, const KernelSpec& spec, const Device& device)
      : BoundKernel(device),
        bias_(has_bias(op)),
        residual_(op.residual()),
        adds_gamma_(spec.output_accumulates[1]),
        adds_beta_(bias_ && spec.output_accumulates[2]),
        rows_(spec.inputs[3].shape[0]),
        width_(spec.inputs[0].shape[-1]),
        parts_(std::clamp<std::int64_t>(ceil_div(rows_, kRows), 1, max_parts())) {}

  std::size_t workspace_bytes() const override {
    return std::size_t(parts_ * 2 * width_) * sizeof(float);
  }

  void run(const RunState& state) override {
    constexpr int kPack = Pack<T>::kElems;
    if (width_ % kPack != 0)
      start<0, 1, 1>();
    else if (width_ <= kMaxThreads * kPack)
      threads_for(1, kPack) <= kFewThreads ? start<1, kPack, kRows, kFewThreads>()
                                           : start<1, kPack, kRows>();
    else if (width_ <= kHeldColumns)
      start<kHeldColumns / kMaxThreads / kPack, kPack, 1>();
    else
      start<0, kPack, 1>();
    launch(kCentered ? "layer_norm_bwd sums" : "rms_norm_bwd sums",
           {.grid = dim3(unsigned(ceil_div(width_, kSumColumns)), bias_ ? 2 : 1),
            .shared_bytes = kBlock * sizeof(double)},
           stream(),
           add_parts_kernel,
           ColumnResult{output(1), adds_gamma_ && state.accumulate},
           ColumnResult{bias_ ? output(2) : nullptr, adds_beta_ && state.accumulate},
           workspace<float>(),
           parts_,
           width_);
  }

 private:
  /// Threads of a block that has `steps` groups of `width` columns a thread, or any number where it
  /// is 0.
  unsigned threads_for(int steps, int width) const {
    const std::int64_t lanes = ceil_div(width_, width * std::max(steps, 1));
    return unsigned(std::min<std::int64_t>(ceil_div(lanes, kWarp) * kWarp, kMaxThreads));
  }
  std::int64_t max_parts() const {
    constexpr int kPack = Pack<T>::kElems;
    const std::int64_t threads = threads_for(1, width_ % kPack == 0 ? kPack : 1);
    return kMultiprocessors * std::max<std::int64_t>(4, kThreadsWanted / threads);
  }

  template <int steps, int width, int rows, int most = kMaxThreads>
  void start() {
    const unsigned threads = threads_for(steps, width);
    launch(kCentered ? "layer_norm_bwd" : "rms_norm_bwd",
           {.grid = dim3(unsigned(parts_)),
            .block = dim3(threads),
            .shared_bytes = 2 * (threads / kWarp) * sizeof(RowSums<rows>)},
           stream(),
           layer_norm_bwd_kernel<T, steps, width, rows, most, kCentered>,
           LayerNormBwdArgs<T>{.h = input<T>(0),
                               .dy = input<T>(1),
                               .gamma = input(2),
                               .saved = input(3),
                               .dh_in = residual_ ? input<T>(4) : nullptr,
                               .dh = output<T>(0),
                               .parts = workspace<float>(),
                               .rows = rows_,
                               .width = width_});
  }

  bool bias_, residual_, adds_gamma_, adds_beta_;
  std::int64_t rows_, width_;
  std::int64_t parts_;  // blocks, and the partial sums that they leave
};

template <typename T>
using OfLayerNorm = LayerNormBwdKernel<T, ops::LayerNormBwd>;
template <typename T>
using OfRmsNorm = LayerNormBwdKernel<T, ops::RmsNormBwd>;

}  // namespace

std::unique_ptr<Kernel> make_layer_norm_bwd_kernel(const ops::LayerNormBwd& op,
                                                   const KernelSpec& spec,
                                                   const Device& device) {
  return make_stored<OfLayerNorm>(spec.inputs[0].dtype, op, spec, device);
}

std::unique_ptr<Kernel> make_rms_norm_bwd_kernel(const ops::RmsNormBwd& op,
                                                 const KernelSpec& spec,
                                                 const Device& device) {
  return make_stored<OfRmsNorm>(spec.inputs[0].dtype, op, spec, device);
}

}  // namespace lockstep::cuda
