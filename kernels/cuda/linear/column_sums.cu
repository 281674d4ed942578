// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "kernels/cuda/group_access.cuh"
#include "kernels/cuda/linear/column_sums.h"

// Sums over the rows of a matrix. The rows are cut into slices. First kernel: a block takes one
// slice of up to 32 groups of neighbouring columns; each thread adds every n-th row of its group,
// then the threads of a group add pairwise through shared memory and write the slice's sums.
// Second kernel: the slices of a column are added the same way, a column a thread: 4 bytes each,
// of which a warp reads 128 side by side. With 16 bytes each a quarter of its threads would be
// left, and they are too few to hide latency as it is. Bytes: the matrix once; the slices' sums, a
// 64th of it at most, twice. Bound by memory; the second kernel, which reads from the L2 cache, by
// latency.
namespace lockstep::cuda {
namespace {

constexpr int kMaxAcross = kWarp;  // groups of columns in a block
constexpr std::int64_t kBlocks = 1024;
constexpr std::int64_t kSliceRows = 64;
constexpr int kSliceColumns = 256;

/// Rows of a slice: few enough for about kBlocks blocks, many enough to keep their threads busy.
std::int64_t slice_rows(std::int64_t rows, std::int64_t columns) {
  const std::int64_t slices = std::max(std::int64_t{1}, kBlocks / ceil_div(columns, kSliceColumns));
  const std::int64_t narrow = std::max(std::int64_t{1}, kSliceColumns / columns);
  return std::max(ceil_div(rows, slices), kSliceRows * narrow);
}

/// How many of `lane`, lane + lanes, lane + 2 lanes, ... are below `end`.
__device__ inline int steps(std::int64_t end, int lane, int lanes) {
  return lane < end ? int((end - lane - 1) / lanes) + 1 : 0;
}

/// The sum of `count` groups that lie `stride` elements apart, in order. A loop that counts can be
/// unrolled so that several groups are on their way at once.
template <int N, typename T>
__device__ inline Floats<N> sum_with_stride(const T* from, std::int64_t stride, int count) {
  Floats<N> sum{};
#pragma unroll 8
  for (int i = 0; i < count; ++i) {
    const Floats<N> x = load_floats<N>(from + i * stride);
    for (int j = 0; j < N; ++j) sum.values[j] += x.values[j];
  }
  return sum;
}

/// Adds value i of the threads `across` apart, pairwise; the first `across` threads get the sums.
/// `shared`: blockDim.x floats for each of the N values.
template <int N>
__device__ inline void add_over_lanes(Floats<N>& sum, int across, float* shared) {
  const int thread = int(threadIdx.x), threads = int(blockDim.x);
  for (int i = 0; i < N; ++i) shared[i * threads + thread] = sum.values[i];
  for (int half = threads / 2; half >= across; half /= 2) {
    __syncthreads();
    if (thread < half)
      for (int i = 0; i < N; ++i)
        shared[i * threads + thread] += shared[i * threads + thread + half];
  }
  for (int i = 0; i < N; ++i) sum.values[i] = shared[i * threads + thread];
}

/// partial[slice, c] = the sum of a slice's rows. Grid: (blocks of columns, slices).
template <typename T, int N>
__global__ void slice_sums_kernel(float* partial,
                                  const T* values,
                                  std::int64_t rows,
                                  std::int64_t columns,
                                  std::int64_t pitch,
                                  std::int64_t slice_rows,
                                  int across) {
  wait_for_earlier_work();
  const int lane = int(threadIdx.x) / across, lanes = int(blockDim.x) / across;
  const std::int64_t column = (std::int64_t(blockIdx.x) * across + threadIdx.x % across) * N;
  const std::int64_t begin = std::int64_t(blockIdx.y) * slice_rows;
  const std::int64_t end = begin + slice_rows < rows ? begin + slice_rows : rows;
  Floats<N> sum{};
  if (column < columns)
    sum = sum_with_stride<N>(
        values + (begin + lane) * pitch + column, lanes * pitch, steps(end - begin, lane, lanes));
  add_over_lanes(sum, across, dynamic_shared<float>());
  if (lane == 0 && column < columns)
    for (int i = 0; i < N; ++i)
      partial[std::int64_t(blockIdx.y) * columns + column + i] = sum.values[i];
}

/// A warp's width of columns in a block.
__global__ void add_slices_kernel(
    float* sums, const float* partial, std::int64_t slices, std::int64_t columns, bool accumulate) {
  wait_for_earlier_work();
  const std::int64_t column = std::int64_t(blockIdx.x) * kWarp + threadIdx.x % kWarp;
  const int lane = int(threadIdx.x) / kWarp, lanes = int(blockDim.x) / kWarp;
  Floats<1> sum{};
  if (column < columns)
    sum = sum_with_stride<1>(
        partial + lane * columns + column, lanes * columns, steps(slices, lane, lanes));
  add_over_lanes(sum, kWarp, dynamic_shared<float>());
  if (lane == 0 && column < columns)
    sums[column] = accumulate ? sums[column] + sum.values[0] : sum.values[0];
}

template <typename T>
void add_rows_of_slices(const ColumnSums& w, std::int64_t slices, cudaStream_t stream) {
  const std::int64_t pitch = w.pitch > 0 ? w.pitch : w.columns;
  with_width<T>(std::gcd(w.columns, pitch), [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    const std::int64_t groups = w.columns / kWidth;
    int across = 1;
    while (across < kMaxAcross && across < groups) across *= 2;
    launch("column_sums",
           {.grid = dim3(unsigned(ceil_div(groups, across)), unsigned(slices)),
            .block = dim3(kBlock),
            .shared_bytes = kBlock * kWidth * sizeof(float)},
           stream,
           slice_sums_kernel<T, kWidth>,
           static_cast<float*>(w.workspace),
           static_cast<const T*>(w.values),
           w.rows,
           w.columns,
           pitch,
           slice_rows(w.rows, w.columns),
           across);
  });
}

std::int64_t slices_of(std::int64_t rows, std::int64_t columns) {
  return columns == 0 ? 0 : ceil_div(rows, slice_rows(rows, columns));
}

}  // namespace

std::size_t column_sums_workspace(std::int64_t rows, std::int64_t columns) {
  return std::size_t(slices_of(rows, columns) * columns) * sizeof(float);
}

void column_sums(const Device& device, const ColumnSums& what) {
  if (what.columns == 0) return;
  const std::int64_t slices = slices_of(what.rows, what.columns);
  if (what.type == DType::bf16)
    add_rows_of_slices<Bf16>(what, slices, device.compute);
  else
    add_rows_of_slices<float>(what, slices, device.compute);
  launch("column_sums_of_slices",
         {.grid = dim3(unsigned(ceil_div(what.columns, kWarp))),
          .block = dim3(kBlock),
          .shared_bytes = kBlock * sizeof(float)},
         device.compute,
         add_slices_kernel,
         what.sums,
         static_cast<const float*>(what.workspace),
         slices,
         what.columns,
         what.accumulate);
}

}  // namespace lockstep::cuda
