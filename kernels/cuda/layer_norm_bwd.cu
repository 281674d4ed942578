// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/ops/layer_norm.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/reduce.cuh"

// Columns are spread over the threads of a block, which walks over its rows a few at a time: each
// thread keeps the sums of dgamma and dbeta of its columns in registers while the block writes dh.
// At the end every block has a partial sum in the workspace; a second kernel adds these in a fixed
// order. Which rows are a block's is a function of the shape alone. Bytes: h, dy, dh, and dh_in
// with a residual, once; the partial sums are a few percent of that. Bound by memory.
namespace lockstep::cuda {
namespace {

/// Partial sums at most: four blocks for each multiprocessor of the largest devices.
constexpr std::int64_t kMaxParts = 528;
constexpr int kMaxThreads = 512;
constexpr std::int64_t kHeldColumns = 8192;
constexpr int kRows = 4;  // walked over at a time
/// Columns and slices of the parts that a block of the second kernel adds.
constexpr int kSumColumns = 32, kSumSlices = kBlock / kSumColumns;

template <typename T>
struct LayerNormBwdArgs {
  const T* h = nullptr;
  const T* dy = nullptr;
  const float* gamma = nullptr;
  const float* saved = nullptr;  // [rows, 2]
  const T* dh_in = nullptr;      // null: none
  T* dh = nullptr;               // may be dy
  float* parts = nullptr;        // [blocks, 2, width]
  std::int64_t rows = 0, width = 0;
};

/// What a row needs from all its columns: sums of g and of g xhat.
struct RowSums {
  float g = 0, product = 0;
};

/// Sums over the block of `count` rows; as in reduce.cuh, with one pair of barriers for all.
template <int count>
__device__ inline void block_sums(RowSums (&sums)[count]) {
  RowSums* const shared = dynamic_shared<RowSums>();
  const int warp = int(threadIdx.x) / kWarp, warps = int(blockDim.x) / kWarp;
  for (RowSums& sum : sums) sum = {warp_reduce(sum.g, Sum{}), warp_reduce(sum.product, Sum{})};
  __syncthreads();
  if (threadIdx.x % kWarp == 0)
    for (int r = 0; r < count; ++r) shared[warp * count + r] = sums[r];
  __syncthreads();
  for (int r = 0; r < count; ++r) {
    sums[r] = shared[r];
    for (int w = 1; w < warps; ++w) {
      sums[r].g += shared[w * count + r].g;
      sums[r].product += shared[w * count + r].product;
    }
  }
}

/// dh of some columns of a row, given the row's means.
template <typename T, int width>
__device__ inline void store_dh(const LayerNormBwdArgs<T>& a,
                                std::int64_t at,
                                const Chunk<T, width>& h,
                                const Chunk<T, width>& dy,
                                const Chunk<float, width>& gamma,
                                float mean,
                                float rstd,
                                const RowSums& means) {
  Chunk<T, width> added{};
  if (a.dh_in != nullptr) added = load_chunk<width>(a.dh_in + at);
  Chunk<T, width> result;
  for (int i = 0; i < width; ++i) {
    const float normal = (to_float(h.values[i]) - mean) * rstd;
    const float g = to_float(dy.values[i]) * gamma.values[i];
    float d = rstd * (g - means.g - normal * means.product);
    if (a.dh_in != nullptr) d += to_float(added.values[i]);
    result.values[i] = from_float<T>(d);
  }
  store_chunk(a.dh + at, result);
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
  __device__ void add(int step,
                      std::int64_t column,
                      const Chunk<float, width>& gamma,
                      const Chunk<float, width>& beta) {
    if constexpr (steps > 0) {
      for (int i = 0; i < width; ++i) {
        gammas_[step].values[i] += gamma.values[i];
        betas_[step].values[i] += beta.values[i];
      }
    } else {
      Chunk<float, width> gammas = load_chunk<width>(part_ + column);
      Chunk<float, width> betas = load_chunk<width>(part_ + columns_ + column);
      for (int i = 0; i < width; ++i) {
        gammas.values[i] += gamma.values[i];
        betas.values[i] += beta.values[i];
      }
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

/// `rows` rows are walked over at a time, so that their loads are under way together.
template <typename T, int steps, int width, int rows>
__global__ void __launch_bounds__(kMaxThreads) layer_norm_bwd_kernel(LayerNormBwdArgs<T> a) {
  const int lane = int(threadIdx.x), threads = int(blockDim.x);
  ColumnSums<steps, width> column_sums(a.parts + blockIdx.x * 2 * a.width, a.width);
  for (std::int64_t first = std::int64_t(blockIdx.x) * rows; first < a.rows;
       first += std::int64_t(gridDim.x) * rows) {
    Chunk<T, width> h[rows][steps > 0 ? steps : 1], dy[rows][steps > 0 ? steps : 1];
    RowSums sums[rows];
    float mean[rows], rstd[rows];
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const std::int64_t row = first + r;
      if (row >= a.rows) continue;
      if constexpr (steps > 0)
        for_columns<steps, width>(lane, threads, a.width, [&](int step, std::int64_t column) {
          h[r][step] = load_chunk<width>(a.h + row * a.width + column);
          dy[r][step] = load_chunk<width>(a.dy + row * a.width + column);
        });
      const Chunk<float, 2> saved = load_chunk<2>(a.saved + 2 * row);
      mean[r] = saved.values[0];
      rstd[r] = saved.values[1];
    }
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      if (first + r >= a.rows) continue;
      const std::int64_t offset = (first + r) * a.width;
      for_columns<steps, width>(lane, threads, a.width, [&](int step, std::int64_t column) {
        if constexpr (steps == 0) {
          h[r][0] = load_chunk<width>(a.h + offset + column);
          dy[r][0] = load_chunk<width>(a.dy + offset + column);
        }
        const Chunk<float, width> gamma = load_chunk<width>(a.gamma + column);
        Chunk<float, width> dgamma, dbeta;
        for (int i = 0; i < width; ++i) {
          const float d = to_float(dy[r][step].values[i]);
          const float normal = (to_float(h[r][step].values[i]) - mean[r]) * rstd[r];
          const float g = d * gamma.values[i];
          sums[r].g += g;
          sums[r].product = fmaf(g, normal, sums[r].product);
          dgamma.values[i] = d * normal;
          dbeta.values[i] = d;
        }
        column_sums.add(step, column, dgamma, dbeta);
      });
    }
    block_sums(sums);
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      if (first + r >= a.rows) continue;
      const std::int64_t offset = (first + r) * a.width;
      const RowSums means{sums[r].g / float(a.width), sums[r].product / float(a.width)};
      for_columns<steps, width>(lane, threads, a.width, [&](int step, std::int64_t column) {
        if constexpr (steps == 0) {
          h[r][0] = load_chunk<width>(a.h + offset + column);
          dy[r][0] = load_chunk<width>(a.dy + offset + column);
        }
        store_dh(a,
                 offset + column,
                 h[r][step],
                 dy[r][step],
                 load_chunk<width>(a.gamma + column),
                 mean[r],
                 rstd[r],
                 means);
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

template <typename T>
class LayerNormBwdKernel final : public BoundKernel {
 public:
  LayerNormBwdKernel(const ops::LayerNormBwd& op, const KernelSpec& spec, const Device& device)
      : BoundKernel(device),
        bias_(op.bias()),
        residual_(op.residual()),
        adds_gamma_(spec.output_accumulates[1]),
        adds_beta_(op.bias() && spec.output_accumulates[2]),
        rows_(spec.inputs[3].shape[0]),
        width_(spec.inputs[0].shape[-1]),
        parts_(std::clamp<std::int64_t>(ceil_div(rows_, kRows), 1, kMaxParts)) {}

  std::size_t workspace_bytes() const override {
    return std::size_t(parts_ * 2 * width_) * sizeof(float);
  }

  void run(const RunState& state) override {
    constexpr int kPack = Pack<T>::kElems;
    if (width_ % kPack != 0)
      start<0, 1, 1>();
    else if (width_ <= kMaxThreads * kPack)
      start<1, kPack, kRows>();
    else if (width_ <= kHeldColumns)
      start<kHeldColumns / kMaxThreads / kPack, kPack, 1>();
    else
      start<0, kPack, 1>();
    launch("layer_norm_bwd sums",
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
  template <int steps, int width, int rows>
  void start() {
    const std::int64_t lanes = ceil_div(width_, width * std::max(steps, 1));
    const auto threads =
        unsigned(std::min<std::int64_t>(ceil_div(lanes, kWarp) * kWarp, kMaxThreads));
    launch("layer_norm_bwd",
           {.grid = dim3(unsigned(parts_)),
            .block = dim3(threads),
            .shared_bytes = threads / kWarp * rows * sizeof(RowSums)},
           stream(),
           layer_norm_bwd_kernel<T, steps, width, rows>,
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

}  // namespace

std::unique_ptr<Kernel> make_layer_norm_bwd_kernel(const ops::LayerNormBwd& op,
                                                   const KernelSpec& spec,
                                                   const Device& device) {
  return make_stored<LayerNormBwdKernel>(spec.inputs[0].dtype, op, spec, device);
}

}  // namespace lockstep::cuda
