// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "core/ops/norms/layer_norm.h"
#include "core/ops/norms/rms_norm.h"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/reduce.cuh"

// Layer normalisation, and root-mean-square normalisation, which is not centred.
// A row belongs to a warp where it has at most kWarpColumns columns, otherwise to a block; up to
// kHeldColumns columns stay in registers between the mean, the variance and the result, so that x
// (and the residual) are read once. Longer rows, and rows that packs of 16 bytes do not divide, are
// read again, from the caches. Bytes: x, y, and with a residual r and h, once. Bound by memory.
namespace lockstep::cuda {
namespace {

constexpr std::int64_t kWarpColumns = 1024, kHeldColumns = 8192;
constexpr int kMaxBlocks = 65535;  // each walks on over the rows

template <typename T>
struct LayerNormArgs {
  const T* x = nullptr;
  const float* gamma = nullptr;
  const float* beta = nullptr;  // null: none
  const T* residual = nullptr;  // null: none
  T* y = nullptr;
  float* saved = nullptr;  // [rows, 2]; not centred: [rows]
  T* sum = nullptr;        // x + residual, may be x
  std::int64_t rows = 0, width = 0;
  float eps = 0;
};

/// Sum over the threads of a row.
template <int threads>
__device__ inline float row_sum(float value) {
  if constexpr (threads == kWarp)
    return warp_reduce(value, Sum{});
  else
    return block_sum(value, dynamic_shared<float>());
}

template <typename T, int threads, int steps, int width, bool centered>
__global__ void __launch_bounds__(kBlock) layer_norm_kernel(LayerNormArgs<T> a) {
  wait_for_earlier_work();
  constexpr int kRows = kBlock / threads;
  const int lane = int(threadIdx.x) % threads;
  for (std::int64_t first = std::int64_t(blockIdx.x) * kRows; first < a.rows;
       first += std::int64_t(gridDim.x) * kRows) {
    const std::int64_t row = first + int(threadIdx.x) / threads;
    // A warp without a row takes part in the reductions, with no columns.
    const std::int64_t columns = row < a.rows ? a.width : 0, offset = row * a.width;
    HeldRow<T, steps, width> h((a.residual == nullptr ? a.x : a.sum) + offset);

    float total = 0;
    for_columns<steps, width>(lane, threads, columns, [&](int step, std::int64_t column) {
      Chunk<T, width> chunk = load_chunk<width>(a.x + offset + column);
      if (a.residual != nullptr) {
        const Chunk<T, width> added = load_chunk<width>(a.residual + offset + column);
        for (int i = 0; i < width; ++i)
          chunk.values[i] = from_float<T>(to_float(chunk.values[i]) + to_float(added.values[i]));
        store_chunk(a.sum + offset + column, chunk);
      }
      h.hold(step, chunk);
      for (int i = 0; i < width; ++i) {
        const float value = to_float(chunk.values[i]);
        total = centered ? total + value : fmaf(value, value, total);
      }
    });
    total = row_sum<threads>(total);
    const float mean = centered ? total / float(a.width) : 0.0f;

    float squares = total;
    if constexpr (centered) {
      squares = 0;
      for_columns<steps, width>(lane, threads, columns, [&](int step, std::int64_t column) {
        const Chunk<T, width> chunk = h.get(step, column);
        for (int i = 0; i < width; ++i) {
          const float deviation = to_float(chunk.values[i]) - mean;
          squares = fmaf(deviation, deviation, squares);
        }
      });
      squares = row_sum<threads>(squares);
    }
    const float rstd = 1.0f / sqrtf(squares / float(a.width) + a.eps);
    if (columns > 0 && lane == 0) {
      if constexpr (centered)
        store_chunk(a.saved + 2 * row, Chunk<float, 2>{{mean, rstd}});
      else
        a.saved[row] = rstd;
    }

    for_columns<steps, width>(lane, threads, columns, [&](int step, std::int64_t column) {
      const Chunk<T, width> chunk = h.get(step, column);
      const Chunk<float, width> gamma = load_chunk<width>(a.gamma + column);
      Chunk<float, width> beta{};
      if (a.beta != nullptr) beta = load_chunk<width>(a.beta + column);
      Chunk<T, width> result;
      for (int i = 0; i < width; ++i) {
        const float value = to_float(chunk.values[i]);
        const float normal = (centered ? value - mean : value) * rstd;
        result.values[i] =
            from_float<T>(a.beta == nullptr ? normal * gamma.values[i]
                                            : fmaf(normal, gamma.values[i], beta.values[i]));
      }
      store_chunk(a.y + offset + column, result);
    });
  }
}

bool has_bias(const ops::LayerNorm& op) { return op.bias(); }
bool has_bias(const ops::RmsNorm&) { return false; }

template <typename T, typename Op>
class LayerNormKernel final : public BoundKernel {
  static constexpr bool kCentered = std::is_same_v<Op, ops::LayerNorm>;

 public:
  LayerNormKernel(const Op& op, const KernelSpec& spec, const Device& device)
      : BoundKernel(device),
        bias_(has_bias(op)),
        residual_(op.residual()),
        eps_(op.eps()),
        rows_(spec.outputs[1].shape[0]),
        width_(spec.inputs[0].shape[-1]) {}

  void run(const RunState&) override {
    constexpr int kPack = Pack<T>::kElems;
    if (width_ % kPack != 0)
      width_ <= kWarpColumns ? start<kWarp, 0, 1>() : start<kBlock, 0, 1>();
    else if (width_ <= kWarpColumns)
      width_ <= kWarpColumns / 4 ? start<kWarp, kWarpColumns / 4 / kWarp / kPack, kPack>()
                                 : start<kWarp, kWarpColumns / kWarp / kPack, kPack>();
    else if (width_ <= kHeldColumns)
      width_ <= kHeldColumns / 4 ? start<kBlock, kHeldColumns / 4 / kBlock / kPack, kPack>()
                                 : start<kBlock, kHeldColumns / kBlock / kPack, kPack>();
    else
      start<kBlock, 0, kPack>();
  }

 private:
  template <int threads, int steps, int width>
  void start() {
    const LayerNormArgs<T> args{.x = input<T>(0),
                                .gamma = input(1),
                                .beta = bias_ ? input(2) : nullptr,
                                .residual = residual_ ? input<T>(bias_ ? 3 : 2) : nullptr,
                                .y = output<T>(0),
                                .saved = output(1),
                                .sum = residual_ ? output<T>(2) : nullptr,
                                .rows = rows_,
                                .width = width_,
                                .eps = eps_};
    LaunchShape shape = cover(rows_ * threads, kMaxBlocks);
    shape.shared_bytes = threads == kWarp ? 0 : kBlock / kWarp * sizeof(float);
    launch(kCentered ? "layer_norm" : "rms_norm",
           shape,
           stream(),
           layer_norm_kernel<T, threads, steps, width, kCentered>,
           args);
  }

  bool bias_, residual_;
  float eps_;
  std::int64_t rows_, width_;
};

template <typename T>
using OfLayerNorm = LayerNormKernel<T, ops::LayerNorm>;
template <typename T>
using OfRmsNorm = LayerNormKernel<T, ops::RmsNorm>;

}  // namespace

std::unique_ptr<Kernel> make_layer_norm_kernel(const ops::LayerNorm& op,
                                               const KernelSpec& spec,
                                               const Device& device) {
  return make_stored<OfLayerNorm>(spec.inputs[0].dtype, op, spec, device);
}

std::unique_ptr<Kernel> make_rms_norm_kernel(const ops::RmsNorm& op,
                                             const KernelSpec& spec,
                                             const Device& device) {
  return make_stored<OfRmsNorm>(spec.inputs[0].dtype, op, spec, device);
}

}  // namespace lockstep::cuda
