// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/batch_norm/batch_norm_affine.cuh"
#include "kernels/cuda/batch_norm/batch_norm_saved.cuh"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/kernel_list.h"

// Note [Tiles of batch norm] says how the work is divided. Bytes: x, dy and dx once. Bound by
// memory. bwd_factors, before it, has a thread a channel, neighbours reading neighbours: 8 bytes
// read for each part of a group, 12 written; bound by latency, as some thousand channels fill no
// device.
namespace lockstep::cuda {
namespace {

template <typename T>
struct DataArgs {
  const T* x = nullptr;
  const T* dy = nullptr;
  const float* gamma = nullptr;
  const float* saved = nullptr;
  const float* moments = nullptr;  // [groups, parts, 3, channels]
  const float* sums = nullptr;     // [groups, parts, 2, channels]
  float* factors = nullptr;        // [groups, 3, channels]: dx = f0 dy + (f1 (x - mean) + f2)
  T* dx = nullptr;                 // may be dy
  std::int64_t parts = 0;
  bool relu = false;
  float largest = ops::kNoLimit;  // ops::largest_open()
};

/// A thread for each channel of each group.
template <typename T>
__global__ void bwd_factors_kernel(DataArgs<T> a, BatchNormTiles tiles) {
  wait_for_earlier_work();
  const std::int64_t channels = tiles.channels;
  for (std::int64_t i = global_thread(); i < channels * tiles.groups; i += all_threads()) {
    const std::int64_t g = i / channels, c = i % channels;
    double n = 0, dy = 0, dy_xhat = 0;
    for (std::int64_t p = 0; p < a.parts; ++p) {
      n += double(a.moments[(g * a.parts + p) * 3 * channels]);
      const float* const sums = a.sums + (g * a.parts + p) * 2 * channels + c;
      dy += double(sums[0]);
      dy_xhat += double(sums[channels]);
    }
    // With one value per channel the statistics are constants.
    const double inverse_n = n > 1 ? 1.0 / n : 0.0;
    const double rstd = double(a.saved[(g * (a.relu ? 4 : 2) + 1) * channels + c]);
    const double factor = double(a.gamma[c]) * rstd;
    float* const factors = a.factors + g * 3 * channels + c;
    factors[0] = float(factor);
    factors[channels] = float(-factor * rstd * dy_xhat * inverse_n);
    factors[2 * channels] = float(-factor * dy * inverse_n);
  }
}

template <typename T, int width>
__global__ void __launch_bounds__(kBlock, 2)
    batch_norm_bwd_data_kernel(DataArgs<T> a, BatchNormTiles tiles) {
  wait_for_earlier_work();
  const TilePlace place(tiles);
  if (place.first_row >= place.end_row) return;
  const std::int64_t channels = tiles.channels, step = place.row_lanes;
  const Saved<width> saved(a.saved + place.group * (a.relu ? 4 : 2) * channels + place.channel,
                           channels,
                           a.relu,
                           a.largest);
  const float* const factors = a.factors + place.group * 3 * channels + place.channel;
  const Chunk<float, width> of_dy = load_chunk<width>(factors);
  const Chunk<float, width> of_x = load_chunk<width>(factors + channels);
  const Chunk<float, width> rest = load_chunk<width>(factors + 2 * channels);
  for (std::int64_t row = place.first_row; row < place.end_row; row += kMapBatch<T> * step) {
    Chunk<T, width> x[kMapBatch<T>], dy[kMapBatch<T>];
#pragma unroll
    for (int k = 0; k < kMapBatch<T>; ++k) {
      const std::int64_t at = (row + k * step) * channels + place.channel;
      if (row + k * step >= place.end_row) continue;
      x[k] = load_chunk<width>(a.x + at);
      dy[k] = load_chunk<width>(a.dy + at);
    }
#pragma unroll
    for (int k = 0; k < kMapBatch<T>; ++k) {
      if (row + k * step >= place.end_row) continue;
      for (int i = 0; i < width; ++i) {
        const float v = to_float(x[k].values[i]);
        const float d = saved.masked(i, v, to_float(dy[k].values[i]));
        const float base = fmaf(v - saved.mean.values[i], of_x.values[i], rest.values[i]);
        dy[k].values[i] = from_float<T>(fmaf(d, of_dy.values[i], base));
      }
      store_chunk(a.dx + (row + k * step) * channels + place.channel, dy[k]);
    }
  }
}

template <typename T>
class BatchNormBwdDataKernel final : public BoundKernel {
 public:
  BatchNormBwdDataKernel(const ops::BatchNormBwdData& op,
                         const KernelSpec& spec,
                         const Device& device)
      : BoundKernel(device),
        tiles_(spec.inputs[0].shape, op.group_size(), Pack<T>::kElems, kMapBlocks, kMapBatch<T>),
        relu_(op.relu()),
        largest_(ops::largest_open(op.limit())),
        parts_(spec.inputs[4].shape[1]) {}

  std::size_t workspace_bytes() const override {
    return std::size_t(tiles_.groups * 3 * tiles_.channels) * sizeof(float);
  }

  void run(const RunState&) override {
    if (tiles_.samples == 0) return;
    const DataArgs<T> args{.x = input<T>(0),
                           .dy = input<T>(1),
                           .gamma = input(2),
                           .saved = input(3),
                           .moments = input(4),
                           .sums = input(5),
                           .factors = workspace<float>(),
                           .dx = output<T>(0),
                           .parts = parts_,
                           .relu = relu_,
                           .largest = largest_};
    launch("batch_norm_bwd_data factors",
           cover(tiles_.channels * tiles_.groups),
           stream(),
           bwd_factors_kernel<T>,
           args,
           tiles_);
    with_width<Pack<T>::kElems>(tiles_.width, [&](auto width) {
      launch("batch_norm_bwd_data",
             tiles_.shape(),
             stream(),
             batch_norm_bwd_data_kernel<T, width>,
             args,
             tiles_);
    });
  }

 private:
  BatchNormTiles tiles_;
  bool relu_;
  float largest_;
  std::int64_t parts_;
};

}  // namespace

std::unique_ptr<Kernel> make_batch_norm_bwd_data_kernel(const ops::BatchNormBwdData& op,
                                                        const KernelSpec& spec,
                                                        const Device& device) {
  return make_stored<BatchNormBwdDataKernel>(spec.inputs[0].dtype, op, spec, device);
}

}  // namespace lockstep::cuda
