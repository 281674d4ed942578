// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/batch_norm/batch_norm_saved.cuh"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/kernel_list.h"

// Note [Tiles of batch norm] says how the work is divided. Sums: fp32 over a few rows, fp64
// over batches, threads and tiles, in a fixed order. Bytes: x and dy once, after a residual also
// y, dz and a second gradient. Bound by memory. add_groups has a thread a channel, neighbours
// reading neighbours: 16 bytes read for each group, 8 written; bound by latency.
namespace lockstep::cuda {
namespace {

/// Rows of 16 bytes with 16 elements.
template <typename T>
constexpr int kSumBatch = 16 / Pack<T>::kElems;
constexpr std::int64_t kSumBlocks = 528;  // four for each multiprocessor of the largest devices

template <int width>
struct Sums {
  double dy[width] = {};
  double product[width] = {};  // of dy and the deviation of x
};

struct AddSums {
  template <int width>
  __device__ void operator()(Sums<width>& all, const Sums<width>& part) const {
    for (int i = 0; i < width; ++i) {
      all.dy[i] += part.dy[i];
      all.product[i] += part.product[i];
    }
  }
};

template <typename T>
struct SumArgs {
  const T* x = nullptr;
  const T* dy = nullptr;
  const float* saved = nullptr;
  double* partial = nullptr;  // [groups, tiles, 2, channels]
  bool relu = false;
  float largest = ops::kNoLimit;  // ops::largest_open()
  // After a residual and ReLU: the gradient is dz = y > 0 ? dy + other : 0.
  const T* y = nullptr;
  const T* other = nullptr;  // null: none
  T* dz = nullptr;           // may be dy
};

/// Computes and stores a chunk of dz.
template <int width, typename T>
__device__ inline Chunk<T, width> make_dz(const SumArgs<T>& a, std::int64_t at) {
  Chunk<T, width> dz = load_chunk<width>(a.dy + at), other;
  const Chunk<T, width> y = load_chunk<width>(a.y + at);
  if (a.other != nullptr) other = load_chunk<width>(a.other + at);
  for (int i = 0; i < width; ++i) {
    float d = to_float(dz.values[i]);
    if (a.other != nullptr) d += to_float(other.values[i]);
    dz.values[i] = from_float<T>(to_float(y.values[i]) > 0.0f ? d : 0.0f);
  }
  store_chunk(a.dz + at, dz);
  return dz;
}

template <typename T, int width, bool residual>
__global__ void __launch_bounds__(kBlock, 2)
    batch_norm_bwd_sums_kernel(SumArgs<T> a, BatchNormTiles tiles) {
  wait_for_earlier_work();
  const TilePlace place(tiles);
  const std::int64_t step = place.row_lanes;
  Sums<width> sums;
  if (place.first_row < place.end_row) {
    const Saved<width> saved(
        a.saved + place.group * (a.relu ? 4 : 2) * tiles.channels + place.channel,
        tiles.channels,
        !residual && a.relu,
        a.largest);
    for (std::int64_t row = place.first_row; row < place.end_row; row += kSumBatch<T> * step) {
      Chunk<T, width> x[kSumBatch<T>], dy[kSumBatch<T>];
#pragma unroll
      for (int k = 0; k < kSumBatch<T>; ++k) {
        const std::int64_t at = (row + k * step) * tiles.channels + place.channel;
        if (row + k * step >= place.end_row) continue;
        x[k] = load_chunk<width>(a.x + at);
        if constexpr (!residual) dy[k] = load_chunk<width>(a.dy + at);
      }
      // Row after row: with the operands of all rows registers would run out.
      if constexpr (residual)
#pragma unroll
        for (int k = 0; k < kSumBatch<T>; ++k)
          if (row + k * step < place.end_row)
            dy[k] = make_dz<width>(a, (row + k * step) * tiles.channels + place.channel);
      for (int i = 0; i < width; ++i) {
        float sum = 0, product = 0;
#pragma unroll
        for (int k = 0; k < kSumBatch<T>; ++k) {
          if (row + k * step >= place.end_row) continue;
          const float v = to_float(x[k].values[i]);
          const float d = saved.masked(i, v, to_float(dy[k].values[i]));
          sum += d;
          product = fmaf(d, v - saved.mean.values[i], product);
        }
        sums.dy[i] += double(sum);
        sums.product[i] += double(product);
      }
    }
  }
  combine_rows(sums,
               dynamic_shared<Sums<width>>(),
               place.row_lane,
               place.row_lanes,
               place.lane,
               tiles.lanes,
               AddSums{});
  if (place.row_lane > 0 || !place.has_channels(tiles)) return;
  double* const result = a.partial + TilePlace::number(tiles) * 2 * tiles.channels + place.channel;
  for (int i = 0; i < width; ++i) {
    result[i] = sums.dy[i];
    result[tiles.channels + i] = sums.product[i];
  }
}

struct ChannelResult {
  float* out = nullptr;
  bool accumulate = false;
  __device__ void write(std::int64_t channel, double value) const {
    out[channel] = accumulate ? out[channel] + float(value) : float(value);
  }
};

struct JoinArgs {
  const double* partial = nullptr;  // [groups, tiles, 2, channels]
  const float* saved = nullptr;
  float* sums = nullptr;         // [groups, 2, channels]
  double* group_sums = nullptr;  // [groups, 2, channels]
  ChannelResult dgamma, dbeta;   // written here where there is one group
  bool relu = false;
};

/// One block for kJoinChannels channels of a group: every slice adds its share of the tiles, then
/// slices are added.
__global__ void join_sums_kernel(JoinArgs a, BatchNormTiles tiles) {
  wait_for_earlier_work();
  const std::int64_t channels = tiles.channels, blocks = ceil_div(channels, kJoinChannels);
  const std::int64_t group = blockIdx.x / blocks;
  const int lane = int(threadIdx.x) % kJoinChannels, slice = int(threadIdx.x) / kJoinChannels;
  const std::int64_t channel = blockIdx.x % blocks * kJoinChannels + lane;
  Sums<1> all;
  if (channel < channels)
#pragma unroll 4
    for (std::int64_t t = slice; t < tiles.tiles; t += kJoinSlices) {
      const double* const dy = a.partial + (group * tiles.tiles + t) * 2 * channels + channel;
      all.dy[0] += dy[0];
      all.product[0] += dy[channels];
    }
  combine_rows(all, dynamic_shared<Sums<1>>(), slice, kJoinSlices, lane, kJoinChannels, AddSums{});
  if (slice > 0 || channel >= channels) return;
  const float rstd = a.saved[(group * (a.relu ? 4 : 2) + 1) * channels + channel];
  const double dy = all.dy[0], dy_xhat = all.product[0] * double(rstd);
  a.sums[group * 2 * channels + channel] = float(dy);
  a.sums[(group * 2 + 1) * channels + channel] = float(dy_xhat);
  if (tiles.groups == 1) {
    a.dgamma.write(channel, dy_xhat);
    a.dbeta.write(channel, dy);
  } else {
    a.group_sums[group * 2 * channels + channel] = dy;
    a.group_sums[(group * 2 + 1) * channels + channel] = dy_xhat;
  }
}

/// A thread for each channel.
__global__ void add_groups_kernel(JoinArgs a, BatchNormTiles tiles) {
  wait_for_earlier_work();
  const std::int64_t channels = tiles.channels;
  for (std::int64_t c = global_thread(); c < channels; c += all_threads()) {
    double dy = 0, dy_xhat = 0;
    for (std::int64_t g = 0; g < tiles.groups; ++g) {
      dy += a.group_sums[g * 2 * channels + c];
      dy_xhat += a.group_sums[(g * 2 + 1) * channels + c];
    }
    a.dgamma.write(c, dy_xhat);
    a.dbeta.write(c, dy);
  }
}

/// For both operators: bwd_sums and residual_bwd_sums.
template <typename T>
class BatchNormBwdSumsKernel final : public BoundKernel {
 public:
  BatchNormBwdSumsKernel(const ops::BatchNormBwdSums& op,
                         const KernelSpec& spec,
                         const Device& device)
      : BatchNormBwdSumsKernel(op.group_size(), spec, device) {
    relu_ = op.relu();
    largest_ = ops::largest_open(op.limit());
  }
  BatchNormBwdSumsKernel(const ops::BatchNormResidualBwdSums& op,
                         const KernelSpec& spec,
                         const Device& device)
      : BatchNormBwdSumsKernel(op.group_size(), spec, device) {
    residual_ = true;
    two_uses_ = op.two_uses();
  }

  std::size_t workspace_bytes() const override {
    return std::size_t(partial_elems() + tiles_.groups * 2 * tiles_.channels) * sizeof(double);
  }

  void run(const RunState& state) override {
    if (residual_)
      start_sums<true>({.x = input<T>(0),
                        .dy = input<T>(1),
                        .saved = input(2),
                        .partial = workspace<double>(),
                        .y = input<T>(3),
                        .other = two_uses_ ? input<T>(4) : nullptr,
                        .dz = output<T>(3)});
    else
      start_sums<false>({.x = input<T>(0),
                         .dy = input<T>(1),
                         .saved = input(2),
                         .partial = workspace<double>(),
                         .relu = relu_,
                         .largest = largest_});
    const JoinArgs join{.partial = workspace<double>(),
                        .saved = input(2),
                        .sums = output(0),
                        .group_sums = workspace<double>() + partial_elems(),
                        .dgamma = {output(1), state.accumulate && adds_dgamma_},
                        .dbeta = {output(2), state.accumulate && adds_dbeta_},
                        .relu = relu_};
    launch("batch_norm_bwd_sums join",
           {.grid = dim3(unsigned(ceil_div(tiles_.channels, kJoinChannels) * tiles_.groups)),
            .shared_bytes = kBlock / 2 * sizeof(Sums<1>)},
           stream(),
           join_sums_kernel,
           join,
           tiles_);
    if (tiles_.groups > 1)
      launch("batch_norm_bwd_sums groups",
             cover(tiles_.channels),
             stream(),
             add_groups_kernel,
             join,
             tiles_);
  }

 private:
  BatchNormBwdSumsKernel(std::int64_t group_size, const KernelSpec& spec, const Device& device)
      : BoundKernel(device),
        tiles_(spec.inputs[0].shape, group_size, Pack<T>::kElems, kSumBlocks, kSumBatch<T>),
        adds_dgamma_(spec.output_accumulates[1]),
        adds_dbeta_(spec.output_accumulates[2]) {}

  std::int64_t partial_elems() const { return tiles_.groups * tiles_.tiles * 2 * tiles_.channels; }

  template <bool residual>
  void start_sums(const SumArgs<T>& args) {
    with_width<Pack<T>::kElems>(tiles_.width, [&](auto width) {
      launch(residual ? "batch_norm_residual_bwd_sums" : "batch_norm_bwd_sums",
             tiles_.shape(kBlock / 2 * sizeof(Sums<width>)),
             stream(),
             batch_norm_bwd_sums_kernel<T, width, residual>,
             args,
             tiles_);
    });
  }

  BatchNormTiles tiles_;
  bool relu_ = false, residual_ = false, two_uses_ = false;
  float largest_ = ops::kNoLimit;
  bool adds_dgamma_, adds_dbeta_;
};

}  // namespace

std::unique_ptr<Kernel> make_batch_norm_bwd_sums_kernel(const ops::BatchNormBwdSums& op,
                                                        const KernelSpec& spec,
                                                        const Device& device) {
  return make_stored<BatchNormBwdSumsKernel>(spec.inputs[0].dtype, op, spec, device);
}

std::unique_ptr<Kernel> make_batch_norm_residual_bwd_sums_kernel(
    const ops::BatchNormResidualBwdSums& op, const KernelSpec& spec, const Device& device) {
  return make_stored<BatchNormBwdSumsKernel>(spec.inputs[0].dtype, op, spec, device);
}

}  // namespace lockstep::cuda
