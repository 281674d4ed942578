// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/batch_norm/batch_norm_saved.cuh"
#include "kernels/cuda/batch_norm/batch_norm_sums.cuh"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/kernel_list.h"

// Note [Sums of batch norm] says how the work is divided. Sums in fp32 are of four rows, then of at
// most 16 such: their error is at most 21 * 2^-24 times the sum of their summands' sizes. Bytes: x
// and dy once, after a residual also y, dz and a second gradient. Bound by memory: six instructions
// for each element, ten after ReLU, twenty after a residual. add_groups has a thread a channel,
// neighbours reading neighbours: 16 bytes read for each group, 8 written; bound by latency.
namespace lockstep::cuda {
namespace {

/// Rows that a thread has under way together, 64 bytes of each operand in packs.
constexpr int kSumRows = 4;
constexpr std::int64_t kSumBlocks = 264;  // what the largest devices hold at once: 132 times 2

/// What comes after the batch norm in forward, and is taken back before its sums are formed.
enum class After { nothing, relu, residual };

/// Of a thread's rows.
template <int width>
struct Sums {
  Chunk<float, width> dy = {}, product = {};  // of dy and the deviation of x
};

template <typename T>
struct SumArgs {
  const T* x = nullptr;
  const T* dy = nullptr;
  const float* saved = nullptr;
  TileSums* partial = nullptr;    // [groups, tiles, channels]
  float largest = ops::kNoLimit;  // ops::largest_open()
  // After a residual and ReLU: the gradient is dz = y > 0 ? dy + other : 0.
  const T* y = nullptr;
  const T* other = nullptr;  // null: none
  T* dz = nullptr;           // may be dy
};

/// Computes dz of some rows, stores it, and leaves it in place of dy.
template <int width, bool whole, typename T>
__device__ inline void make_dz(HeldRows<T, width, kSumRows, whole>& dy,
                               const SumArgs<T>& a,
                               std::int64_t at,
                               std::int64_t step,
                               int left) {
  using Rows = HeldRows<T, width, kSumRows, whole>;
  const Rows y(a.y + at, step, left);
  Rows other;
  if (a.other != nullptr) other = Rows(a.other + at, step, left);
#pragma unroll
  for (int k = 0; k < kSumRows; ++k, at += step) {
    Chunk<T, width> dz;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      float d = dy.get(k, i);
      if (a.other != nullptr) d += other.get(k, i);
      dz.values[i] = from_float<T>(y.get(k, i) > 0.0f ? d : 0.0f);
    }
    if (whole || k < left) store_chunk(a.dz + at, dz);
    dy.rows[k].set(dz);
  }
}

/// Rows that there are not have a dy of 0.
template <int width, typename Rows>
__device__ inline void add_rows(Sums<width>& all,
                                const Saved<width>& saved,
                                const Rows& x,
                                const Rows& dy) {
#pragma unroll
  for (int i = 0; i < width; ++i) {
    float sum = 0, product = 0;
#pragma unroll
    for (int k = 0; k < kSumRows; ++k) {
      const float v = x.get(k, i), d = saved.masked(i, v, dy.get(k, i));
      sum = k == 0 ? d : sum + d;
      product =
          k == 0 ? d * (v - saved.mean.values[i]) : fmaf(d, v - saved.mean.values[i], product);
    }
    all.dy.values[i] += sum;
    all.product.values[i] += product;
  }
}

template <typename T, int width, After after>
__global__ void __launch_bounds__(kBlock, 2)
    batch_norm_bwd_sums_kernel(SumArgs<T> a, BatchNormTiles tiles) {
  wait_for_earlier_work();
  constexpr bool kRelu = after == After::relu;
  const TilePlace place(tiles);
  const int rows = int(tiles.rows_in_tile(place.group, place.tile));
  const int own = place.has_channels(tiles) ? rows_of_thread(rows, place.row_lane, tiles) : 0;
  Sums<width> sums;
  if (own > 0) {
    const Saved<width> saved(
        a.saved + place.group * (kRelu ? 4 : 2) * tiles.channels + place.channel,
        tiles.channels,
        kRelu,
        a.largest);
    const std::int64_t first_at = place.first_row * tiles.channels + place.channel;
    for_batches<kSumRows>(first_at, tiles.step, own, [&](std::int64_t at, int left, auto whole) {
      using Rows = HeldRows<T, width, kSumRows, whole>;
      const Rows x(a.x + at, tiles.step, left);
      Rows dy(a.dy + at, tiles.step, left);
      if constexpr (after == After::residual) make_dz<width, whole>(dy, a, at, tiles.step, left);
      add_rows(sums, saved, x, dy);
    });
  }
  const int columns = tiles.columns(), thread = int(threadIdx.x);
  float* const dys = dynamic_shared<float>();  // [kBlock / lanes, columns], as the others
  float* const products = dys + kBlock * width;
  store_chunk(dys + thread * width, sums.dy);
  store_chunk(products + thread * width, sums.product);
  __syncthreads();
  const int column = thread & (columns - 1), first = place.row_lane / width * width;
  TileSums all;
#pragma unroll
  for (int k = 0; k < width; ++k) {
    const int at_row = (first + k) * columns + column;
    all.add({double(dys[at_row]), double(products[at_row])});
  }
  all = add_columns(all, columns, dynamic_shared<TileSums>(2 * kBlock * width * sizeof(float)));
  const std::int64_t channel = place.first_channel + thread;
  if (thread < columns && channel < tiles.channels)
    a.partial[place.number * tiles.channels + channel] = all;
}

struct ChannelResult {
  float* out = nullptr;
  bool accumulate = false;
  __device__ void write(std::int64_t channel, double value) const {
    out[channel] = accumulate ? out[channel] + float(value) : float(value);
  }
};

struct JoinArgs {
  const TileSums* partial = nullptr;  // [groups, tiles, channels]
  const float* saved = nullptr;
  float* sums = nullptr;           // [groups, 2, channels]
  TileSums* group_sums = nullptr;  // [groups, channels]
  ChannelResult dgamma, dbeta;     // written here where there is one group
  bool relu = false;
};

__global__ void __launch_bounds__(kBlock) join_sums_kernel(JoinArgs a, BatchNormTiles tiles) {
  wait_for_earlier_work();
  const JoinPlace place(tiles);
  const std::int64_t channels = tiles.channels, group = place.group, channel = place.channel;
  const TileSums all =
      add_tiles(a.partial, place, tiles, [](int, const TileSums& part) { return part; });
  if (place.slice > 0 || channel >= channels) return;
  const float rstd = a.saved[(group * (a.relu ? 4 : 2) + 1) * channels + channel];
  const double dy = all.first, dy_xhat = all.second * double(rstd);
  a.sums[group * 2 * channels + channel] = float(dy);
  a.sums[(group * 2 + 1) * channels + channel] = float(dy_xhat);
  if (tiles.groups == 1) {
    a.dgamma.write(channel, dy_xhat);
    a.dbeta.write(channel, dy);
  } else {
    a.group_sums[group * channels + channel] = {dy, dy_xhat};
  }
}

/// A thread for each channel.
__global__ void add_groups_kernel(JoinArgs a, BatchNormTiles tiles) {
  wait_for_earlier_work();
  const std::int64_t channels = tiles.channels;
  for (std::int64_t c = global_thread(); c < channels; c += all_threads()) {
    TileSums all;
    for (std::int64_t g = 0; g < tiles.groups; ++g) all.add(a.group_sums[g * channels + c]);
    a.dgamma.write(c, all.second);
    a.dbeta.write(c, all.first);
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
    return std::size_t(partials() + tiles_.groups * tiles_.channels) * sizeof(TileSums);
  }

  void run(const RunState& state) override {
    if (residual_)
      start_sums<After::residual>({.x = input<T>(0),
                                   .dy = input<T>(1),
                                   .saved = input(2),
                                   .partial = workspace<TileSums>(),
                                   .y = input<T>(3),
                                   .other = two_uses_ ? input<T>(4) : nullptr,
                                   .dz = output<T>(3)});
    else if (relu_)
      start_sums<After::relu>({.x = input<T>(0),
                               .dy = input<T>(1),
                               .saved = input(2),
                               .partial = workspace<TileSums>(),
                               .largest = largest_});
    else
      start_sums<After::nothing>({.x = input<T>(0),
                                  .dy = input<T>(1),
                                  .saved = input(2),
                                  .partial = workspace<TileSums>()});
    const JoinArgs join{.partial = workspace<TileSums>(),
                        .saved = input(2),
                        .sums = output(0),
                        .group_sums = workspace<TileSums>() + partials(),
                        .dgamma = {output(1), state.accumulate && adds_dgamma_},
                        .dbeta = {output(2), state.accumulate && adds_dbeta_},
                        .relu = relu_};
    launch("batch_norm_bwd_sums join",
           JoinPlace::shape(tiles_),
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
        tiles_(spec.inputs[0].shape, group_size, Pack<T>::kElems, kSumBlocks, kSumRows, kTileRows),
        adds_dgamma_(spec.output_accumulates[1]),
        adds_dbeta_(spec.output_accumulates[2]) {}

  std::int64_t partials() const { return tiles_.groups * tiles_.tiles * tiles_.channels; }

  template <After after>
  void start_sums(const SumArgs<T>& args) {
    with_width<Pack<T>::kElems>(tiles_.width, [&](auto width) {
      launch(after == After::residual ? "batch_norm_residual_bwd_sums" : "batch_norm_bwd_sums",
             tiles_.shape(kBlock * (2 * width * sizeof(float) + sizeof(TileSums))),
             stream(),
             batch_norm_bwd_sums_kernel<T, width, after>,
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
