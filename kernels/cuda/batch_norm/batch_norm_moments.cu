// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/batch_norm/batch_norm_sums.cuh"
#include "kernels/cuda/bound_kernel.h"
#include "kernels/cuda/kernel_list.h"

// Note [Sums of batch norm] says how the work is divided. A thread sums deviations from a pivot,
// the mean of its first eight rows, and their squares. Threads, then tiles, are added in fp64,
// moved to one pivot, the first one's: with d from pivot to pivot, n values of sum s and squares q
// have the sum s + n d and the squares q + d (2 s + n d) there.
//
// How exactly: let D be a thread's sum of squared deviations from its own mean. The pivot is the
// mean of m = min(n, 8) of its n values, so that its distance p from their mean has m p^2 <= D, and
// the squares q = D + n p^2 are at most (1 + n / m) D. In fp32 a summand passes at most eight
// additions in its batch and n / 8 <= 8 after it: with e = 2^-24 the error of q is at most
// (8 + 8 + 3) e q, which is 171 e D where all of the first rows are far from the others, and 38 e D
// where p^2 is no more than D / n. The error of the mean is at most (8 + 8 + 1) e times the mean
// size of a deviation from the pivot, which is at most the root of q / n. Neither knows the mean:
// where a pivot is off by its own rounding, deviations are a few units in the last place of the
// values, whose sums in fp32 are exact.
// In fp64 the same holds with what a group has for n: beyond what fp32 shows.
//
// Bytes: x once. Bound by memory: about five instructions for each element.
namespace lockstep::cuda {
namespace {

/// Rows that a thread has under way together, 128 bytes in packs.
constexpr int kRows = 8;
constexpr std::int64_t kBlocks = 396;  // what the largest devices hold at once: 132 times 3

/// Of a thread's rows: sums of deviations from the pivot.
template <int width>
struct Deviations {
  Chunk<float, width> pivot = {}, sum = {}, squares = {};
};

template <typename T, int width, bool whole>
using Rows = HeldRows<T, width, kRows, whole>;

template <typename T, int width, bool whole>
__device__ inline Chunk<float, width> mean_of(const Rows<T, width, whole>& rows, int count) {
  const float inverse = 1.0f / float(count < kRows ? count : kRows);
  Chunk<float, width> mean;
#pragma unroll
  for (int i = 0; i < width; ++i) {
    float sum = rows.get(0, i);
#pragma unroll
    for (int k = 1; k < kRows; ++k) sum += rows.get(k, i);
    mean.values[i] = sum * inverse;
  }
  return mean;
}

template <typename T, int width, bool whole>
__device__ inline void add_rows(Deviations<width>& all,
                                const Rows<T, width, whole>& rows,
                                int left) {
  float minus_one[kRows];  // 0 where there is no row, which then deviates by 0
#pragma unroll
  for (int k = 0; k < kRows; ++k) minus_one[k] = whole || k < left ? -1.0f : 0.0f;
#pragma unroll
  for (int i = 0; i < width; ++i) {
    const float pivot = all.pivot.values[i];
    const float first = fmaf(minus_one[0], pivot, rows.get(0, i));
    float sum = first, squares = first * first;
#pragma unroll
    for (int k = 1; k < kRows; ++k) {
      const float deviation = fmaf(minus_one[k], pivot, rows.get(k, i));
      sum += deviation;
      squares = fmaf(deviation, deviation, squares);
    }
    all.sum.values[i] += sum;
    all.squares.values[i] += squares;
  }
}

/// partial: [groups, tiles, channels], mean and squared deviations.
template <typename T, int width>
__global__ void __launch_bounds__(kBlock, 3)
    batch_norm_moments_kernel(const T* x, TileSums* partial, BatchNormTiles tiles) {
  wait_for_earlier_work();
  const TilePlace place(tiles);
  const int rows = int(tiles.rows_in_tile(place.group, place.tile));
  const int own = place.has_channels(tiles) ? rows_of_thread(rows, place.row_lane, tiles) : 0;
  const std::int64_t first_at = place.first_row * tiles.channels + place.channel;
  Deviations<width> deviations;
  // The first rows are read twice, the second time from the L1 cache: registers hold them as they
  // are or unpacked, not both.
  if (own > 0)
    deviations.pivot = mean_of(Rows<T, width, false>(x + first_at, tiles.step, own), own);
  for_batches<kRows>(first_at, tiles.step, own, [&](std::int64_t at, int left, auto whole) {
    add_rows(deviations, Rows<T, width, whole>(x + at, tiles.step, left), left);
  });
  const int columns = tiles.columns(), thread = int(threadIdx.x);
  float* const pivots = dynamic_shared<float>();  // [kBlock / lanes, columns], as the others
  float* const sums = pivots + kBlock * width;
  float* const squares = sums + kBlock * width;
  store_chunk(pivots + thread * width, deviations.pivot);
  store_chunk(sums + thread * width, deviations.sum);
  store_chunk(squares + thread * width, deviations.squares);
  __syncthreads();
  const int column = thread & (columns - 1), first = place.row_lane / width * width;
  const double pivot = double(pivots[column]);
  // A thread has as many rows as the last one, or one more.
  const int least = rows_of_thread(rows, place.row_lanes - 1, tiles);
  const int with_more = rows - least * place.row_lanes;
  const double fewer = least, more = least + 1;
  TileSums all;
#pragma unroll
  for (int k = 0; k < width; ++k) {
    const int at_row = (first + k) * columns + column;
    const double n = first + k < with_more ? more : fewer, d = double(pivots[at_row]) - pivot;
    const double sum = double(sums[at_row]), moved = fma(n, d, sum);
    all.add({moved, fma(d, sum + moved, double(squares[at_row]))});
  }
  all = add_columns(all, columns, dynamic_shared<TileSums>(3 * kBlock * width * sizeof(float)));
  const std::int64_t channel = place.first_channel + thread;
  if (thread >= columns || channel >= tiles.channels) return;
  const double offset = rows > 0 ? all.first / double(rows) : 0.0;
  partial[place.number * tiles.channels + channel] = {pivot + offset,
                                                      all.second - all.first * offset};
}

/// Tiles are moved to the mean of the first one. moments: [groups, 3, channels].
__global__ void __launch_bounds__(kBlock)
    join_moments_kernel(float* moments, const TileSums* partial, BatchNormTiles tiles) {
  wait_for_earlier_work();
  const JoinPlace place(tiles);
  const std::int64_t channels = tiles.channels;
  const double pivot = place.channel < channels
                           ? partial[place.group * tiles.tiles * channels + place.channel].first
                           : 0.0;
  const double count = double(tiles.rows_in(place.group)), most = double(tiles.tile_rows);
  const TileSums all = add_tiles(partial, place, tiles, [&](int tile, const TileSums& part) {
    const double left = count - double(tile) * most, d = part.first - pivot;
    const double n = left > most ? most : left > 0 ? left : 0.0;
    return TileSums{n * d, fma(n * d, d, part.second)};
  });
  if (place.slice > 0 || place.channel >= channels) return;
  const double offset = count > 0 ? all.first / count : 0.0;
  float* const result = moments + place.group * 3 * channels + place.channel;
  result[0] = float(count);
  result[channels] = float(pivot + offset);
  result[2 * channels] = float(all.second - all.first * offset);
}

template <typename T>
class BatchNormMomentsKernel final : public BoundKernel {
 public:
  BatchNormMomentsKernel(const ops::BatchNormMoments& op,
                         const KernelSpec& spec,
                         const Device& device)
      : BoundKernel(device),
        tiles_(spec.inputs[0].shape, op.group_size(), Pack<T>::kElems, kBlocks, kRows, kTileRows) {}

  std::size_t workspace_bytes() const override {
    return std::size_t(tiles_.groups * tiles_.tiles * tiles_.channels) * sizeof(TileSums);
  }

  void run(const RunState&) override {
    with_width<Pack<T>::kElems>(tiles_.width, [&](auto width) {
      launch("batch_norm_moments",
             tiles_.shape(kBlock * (3 * width * sizeof(float) + sizeof(TileSums))),
             stream(),
             batch_norm_moments_kernel<T, width>,
             input<T>(0),
             workspace<TileSums>(),
             tiles_);
    });
    launch("batch_norm_moments join",
           JoinPlace::shape(tiles_),
           stream(),
           join_moments_kernel,
           output(0),
           workspace<TileSums>(),
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
