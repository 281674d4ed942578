// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/batch_norm/batch_norm_tiles.cuh"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/kernel_list.h"

// Note [Tiles of batch norm] says how the work is divided. A thread takes a few rows of its chunk
// into registers, finds in fp32 the sum of deviations from a pivot near their mean, and of their
// squares, and joins that to its mean and sum of squared deviations in fp64, by Chan's formula
// (Chan, Golub and LeVeque 1979, eq. 2.1); so do threads, in a fixed order; the tiles of a group
// end in two sums. The fp32 sums are of at most eight numbers of the size of a deviation, whatever
// the mean. Bytes: x once. Bound by memory: fp64 does about one operation for each element.
namespace lockstep::cuda {
namespace {

/// Rows of 16 bytes with 32 elements.
template <typename T>
constexpr int kBatch = 32 / Pack<T>::kElems;
constexpr std::int64_t kBlocks = 528;  // four for each multiprocessor of the largest devices

template <int width>
struct Moments {
  double count = 0;
  double mean[width] = {};
  double deviations[width] = {};
};

struct Join {
  template <int width>
  __device__ void operator()(Moments<width>& all, const Moments<width>& part) const {
    if (part.count == 0) return;
    const double share = part.count / (all.count + part.count), weight = all.count * share;
    for (int i = 0; i < width; ++i) {
      const double delta = part.mean[i] - all.mean[i];
      all.deviations[i] += part.deviations[i] + delta * delta * weight;
      all.mean[i] += delta * share;
    }
    all.count += part.count;
  }
};

/// Joins the first `count` of some rows. The pivot need not be exact: its distance from the mean is
/// taken out again.
template <typename T, int width>
__device__ inline void join_rows(Moments<width>& all,
                                 const Chunk<T, width> (&rows)[kBatch<T>],
                                 int count) {
  const float inverse = 1.0f / float(count);
  // Off by a rounding in fp32, which moves the mean by less than 2^-24 deviations.
  const double share = double(float(count) / float(all.count + double(count)));
  const double weight = all.count * share;
#pragma unroll
  for (int i = 0; i < width; ++i) {
    float pivot = 0, sum = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < kBatch<T>; ++k)
      if (k < count) pivot += to_float(rows[k].values[i]);
    pivot *= inverse;
#pragma unroll
    for (int k = 0; k < kBatch<T>; ++k)
      if (k < count) {
        const float deviation = to_float(rows[k].values[i]) - pivot;
        sum += deviation;
        squares = fmaf(deviation, deviation, squares);
      }
    const double offset = double(sum) * double(inverse);
    const double delta = double(pivot) + offset - all.mean[i];
    all.deviations[i] += double(squares) - double(sum) * offset + delta * delta * weight;
    all.mean[i] += delta * share;
  }
  all.count += double(count);
}

/// partial: [groups, tiles, 2, channels], mean and squared deviations.
template <typename T, int width>
__global__ void __launch_bounds__(kBlock, 2)
    batch_norm_moments_kernel(const T* x, double* partial, BatchNormTiles tiles) {
  wait_for_earlier_work();
  const TilePlace place(tiles);
  const std::int64_t step = place.row_lanes;
  Moments<width> moments;
  for (std::int64_t row = place.first_row; row < place.end_row; row += kBatch<T> * step) {
    Chunk<T, width> rows[kBatch<T>];
    int count = 0;
#pragma unroll
    for (int k = 0; k < kBatch<T>; ++k)
      if (row + k * step < place.end_row) {
        rows[k] = load_chunk<width>(x + (row + k * step) * tiles.channels + place.channel);
        ++count;
      }
    join_rows(moments, rows, count);
  }
  combine_rows(moments,
               dynamic_shared<Moments<width>>(),
               place.row_lane,
               place.row_lanes,
               place.lane,
               tiles.lanes,
               Join{});
  if (place.row_lane > 0 || !place.has_channels(tiles)) return;
  double* const means = partial + TilePlace::number(tiles) * 2 * tiles.channels + place.channel;
  for (int i = 0; i < width; ++i) {
    means[i] = moments.mean[i];
    means[tiles.channels + i] = moments.deviations[i];
  }
}

struct AddDoubles {
  __device__ void operator()(double& all, double part) const { all += part; }
};

/// One block for kJoinChannels channels of a group. The mean of all tiles, then the deviations from
/// it: every slice adds its share of the tiles, then slices are added. These are sums, of which no
/// summand waits for the one before and none is divided, as joining by Chan's formula has it.
/// moments: [groups, 3, channels].
__global__ void __launch_bounds__(kBlock)
    join_moments_kernel(float* moments, const double* partial, BatchNormTiles tiles) {
  wait_for_earlier_work();
  const std::int64_t channels = tiles.channels, blocks = ceil_div(channels, kJoinChannels);
  const std::int64_t group = blockIdx.x / blocks;
  const int lane = int(threadIdx.x) % kJoinChannels, slice = int(threadIdx.x) / kJoinChannels;
  const std::int64_t channel = blockIdx.x % blocks * kJoinChannels + lane;
  const std::int64_t end = channel < channels ? tiles.tiles : 0;
  const double* const means = partial + group * tiles.tiles * 2 * channels + channel;
  const double count = double(tiles.rows_in(group));
  double* const shared = dynamic_shared<double>();
  double mean = 0, deviations = 0;
#pragma unroll 4
  for (std::int64_t t = slice; t < end; t += kJoinSlices)
    mean = fma(double(tiles.rows_in_tile(group, t)), means[t * 2 * channels], mean);
  combine_rows(mean, shared, slice, kJoinSlices, lane, kJoinChannels, AddDoubles{});
  __syncthreads();  // the last reader of `shared`
  if (slice == 0) shared[lane] = count > 0 ? mean / count : 0.0;
  __syncthreads();
  mean = shared[lane];
#pragma unroll 4
  for (std::int64_t t = slice; t < end; t += kJoinSlices) {
    const double distance = means[t * 2 * channels] - mean;
    deviations += fma(
        double(tiles.rows_in_tile(group, t)) * distance, distance, means[(t * 2 + 1) * channels]);
  }
  combine_rows(deviations, shared, slice, kJoinSlices, lane, kJoinChannels, AddDoubles{});
  if (slice > 0 || channel >= channels) return;
  float* const result = moments + group * 3 * channels + channel;
  result[0] = float(count);
  result[channels] = float(mean);
  result[2 * channels] = float(deviations);
}

template <typename T>
class BatchNormMomentsKernel final : public BoundKernel {
 public:
  BatchNormMomentsKernel(const ops::BatchNormMoments& op,
                         const KernelSpec& spec,
                         const Device& device)
      : BoundKernel(device),
        tiles_(spec.inputs[0].shape, op.group_size(), Pack<T>::kElems, kBlocks, kBatch<T>) {}

  std::size_t workspace_bytes() const override {
    return std::size_t(tiles_.groups * tiles_.tiles * 2 * tiles_.channels) * sizeof(double);
  }

  void run(const RunState&) override {
    with_width<Pack<T>::kElems>(tiles_.width, [&](auto width) {
      launch("batch_norm_moments",
             tiles_.shape(kBlock / 2 * sizeof(Moments<width>)),
             stream(),
             batch_norm_moments_kernel<T, width>,
             input<T>(0),
             workspace<double>(),
             tiles_);
    });
    launch("batch_norm_moments join",
           {.grid = dim3(unsigned(ceil_div(tiles_.channels, kJoinChannels) * tiles_.groups)),
            .shared_bytes = kBlock / 2 * sizeof(double)},
           stream(),
           join_moments_kernel,
           output(0),
           workspace<double>(),
           tiles_);
  }

 private:
  BatchNormTiles tiles_;
};

}  // namespace

std::unique_ptr<Kernel> make_batch_norm_moments_kernel(const ops::BatchNormMoments& op,
                                                       const KernelSpec& spec,
                                                       const Device& device) {
  return make_stored<BatchNormMomentsKernel>(spec.inputs[0].dtype, op, spec, device);
}

}  // namespace lockstep::cuda
