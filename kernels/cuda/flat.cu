// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/flat.h"
#include "kernels/cuda/ordered_sum.cuh"
#include "kernels/cuda/range_table.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/step_outcome.cuh"

// Work on flat arrays.
//   - Sums of squares have the CPU's order and so its bits. Four threads take a block of kNormBlock
//     elements; of its sixteen running sums, of every sixteenth element, each keeps four that are
//     neighbours, so that it reads 16 bytes at a time where addresses allow; then all are added
//     pairwise. The sums of a range's blocks are added one after another by one thread, which
//     others feed through shared memory. Bytes an element: 4. Bound by memory; the last step by
//     the latency of one fp64 addition for every 16 KiB of the longest range.
//   - add: elementwise.cuh's; element by element where an address is no multiple of 16. Bytes an
//     element: 12. Bound by memory.
//   - Running statistics: a launch for as many as its arguments hold; a thread updates every
//     kBlock-th element of a tile, 4 bytes at a time. Bytes an element: 12. Bound by the launch: a
//     model has some ten thousand elements of them.
namespace lockstep::cuda {
namespace {

struct AddTwo {
  __device__ float operator()(float a, float b) const { return a + b; }
};

__global__ void add_unaligned_kernel(float* out,
                                     const float* a,
                                     const float* b,
                                     std::int64_t elems) {
  for (std::int64_t i = global_thread(); i < elems; i += all_threads()) out[i] = a[i] + b[i];
}

constexpr std::int64_t kStatisticTile = 4 * kBlock;

/// A RunningStatistic in so few bytes that a table has room for many.
struct StatisticRange {
  std::int64_t offset, weight;
  std::int32_t elems;
  float momentum;
};

__global__ void update_statistics_kernel(float* values,
                                         const float* sums,
                                         const __grid_constant__ RangeTable<StatisticRange> table,
                                         const StepOutcome* outcome) {
  if (forbids_updates(outcome)) return;
  const auto place = table.place_of(std::int32_t(blockIdx.x));
  const StatisticRange& range = place.range;
  const std::int64_t begin = place.tile * kStatisticTile;
  const std::int64_t end =
      begin + kStatisticTile < range.elems ? begin + kStatisticTile : range.elems;
  float* const value = values + range.offset;
  const float* const sum = sums + range.offset;
  const float weight = sums[range.weight];
  for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
    value[i] = value[i] + range.momentum * (sum[i] - weight * value[i]);
}

constexpr int kLanes = 16;                      // running sums of a block, whatever computes them
constexpr int kOwnLanes = Pack<float>::kElems;  // of those, what one thread keeps
constexpr int kTeam = kLanes / kOwnLanes;       // threads of a block of kNormBlock elements
constexpr int kNormThreads = 64;                // of a launch: few, so that small models use all
constexpr std::int64_t kNormTile = kNormThreads / kTeam * kNormBlock;

struct NormRange {
  std::int64_t offset, elems;
  std::int64_t partial;  ///< number of its first block among those of all ranges
};

/// partials[b] = the sum of the squares of block b.
__global__ void __launch_bounds__(kNormThreads)
    block_norms_kernel(double* partials,
                       const float* values,
                       const __grid_constant__ RangeTable<NormRange> table,
                       bool aligned) {
  const auto place = table.place_of(std::int32_t(blockIdx.x));
  const int member = int(threadIdx.x) % kTeam;
  const std::int64_t block = place.tile * (kNormThreads / kTeam) + threadIdx.x / kTeam;
  const std::int64_t begin = block * kNormBlock, elems = place.range.elems;
  const std::int64_t end = begin + kNormBlock < elems ? begin + kNormBlock : elems;
  const float* const from = values + place.range.offset;
  double sums[kOwnLanes] = {};
  const auto add_square = [&](int lane, float value) {
    sums[lane] += double(value) * double(value);
  };
  std::int64_t i = begin + member * kOwnLanes;
  if (aligned && place.range.offset % kOwnLanes == 0) {
#pragma unroll 8
    for (; i + kOwnLanes <= end; i += kLanes) {
      const Pack<float> pack = load_pack(from + i);
      for (int lane = 0; lane < kOwnLanes; ++lane) add_square(lane, pack.values[lane]);
    }
  }
  for (; i < end; i += kLanes)
    for (int lane = 0; lane < kOwnLanes && i + lane < end; ++lane) add_square(lane, from[i + lane]);
  // As if every sum were a thread's: lanes eight apart, then four, two and one.
  for (int distance = kTeam / 2; distance > 0; distance /= 2)
    for (int lane = 0; lane < kOwnLanes; ++lane)
      sums[lane] += __shfl_xor_sync(kAllLanes, sums[lane], distance);
  for (int half = kOwnLanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  if (member == 0 && begin < elems) partials[place.range.partial + block] = sums[0];
}

/// Blocks of consecutive ranges: those of range i are [first[i], first[i + 1]).
struct RangeBlocks {
  static constexpr int kMost = 256;
  std::int64_t first[kMost + 1];
};

/// A block a range.
__global__ void add_norms_kernel(double* result,
                                 const double* partials,
                                 const __grid_constant__ RangeBlocks ranges) {
  const double sum = ordered_sum(
      partials, ranges.first[blockIdx.x], ranges.first[blockIdx.x + 1], dynamic_shared<double>());
  if (threadIdx.x == 0) result[blockIdx.x] = sum;
}

}  // namespace

void add(const Device& device, float* out, const float* a, const float* b, std::int64_t elems) {
  if (aligned_to_packs(out, a, b))
    map("flat_add", AddTwo{}, out, elems, device.compute, a, b);
  else
    launch("flat_add", cover(elems), device.compute, add_unaligned_kernel, out, a, b, elems);
}

void update_running_statistics(const Device& device,
                               float* values,
                               const float* sums,
                               std::span<const RunningStatistic> statistics,
                               const StepOutcome* outcome) {
  for_each_table<StatisticRange>(
      statistics,
      kStatisticTile,
      [](const RunningStatistic& s) {
        LOCKSTEP_ASSERT(s.elems <= INT32_MAX);
        return StatisticRange{s.offset, s.weight, std::int32_t(s.elems), s.momentum};
      },
      [&](const RangeTable<StatisticRange>& table) {
        launch("running_statistics",
               {.grid = dim3(unsigned(table.tiles()))},
               device.compute,
               update_statistics_kernel,
               values,
               sums,
               table,
               outcome);
      });
}

std::size_t squared_norms_workspace(std::span<const FlatRange> ranges) {
  std::int64_t blocks = 0;
  for (const FlatRange& range : ranges) blocks += ceil_div(range.elems, kNormBlock);
  return std::size_t(blocks) * sizeof(double);
}

void squared_norms(const Device& device,
                   const float* values,
                   std::span<const FlatRange> ranges,
                   double* result,
                   void* workspace) {
  auto* const partials = static_cast<double*>(workspace);
  std::int64_t blocks = 0;
  for_each_table<NormRange>(
      ranges,
      kNormTile,
      [&](const FlatRange& range) {
        const std::int64_t first = blocks;
        blocks += ceil_div(range.elems, kNormBlock);
        return NormRange{range.offset, range.elems, first};
      },
      [&](const RangeTable<NormRange>& table) {
        launch("block_norms",
               {.grid = dim3(unsigned(table.tiles())), .block = dim3(kNormThreads)},
               device.compute,
               block_norms_kernel,
               partials,
               values,
               table,
               aligned_to_packs(values));
      });
  std::int64_t first = 0;
  for (std::size_t done = 0; done < ranges.size(); done += RangeBlocks::kMost) {
    const auto part =
        ranges.subspan(done, std::min(ranges.size() - done, std::size_t{RangeBlocks::kMost}));
    RangeBlocks table{};
    for (std::size_t i = 0; i < part.size(); ++i) {
      table.first[i] = first;
      table.first[i + 1] = first += ceil_div(part[i].elems, kNormBlock);
    }
    launch("add_norms",
           {.grid = dim3(unsigned(part.size())), .shared_bytes = kOrderedSumBytes},
           device.compute,
           add_norms_kernel,
           result + done,
           partials,
           table);
  }
}

void add_in_order(const Device& device, const double* values, std::int64_t count, double* result) {
  RangeBlocks whole{};
  whole.first[1] = count;
  launch("add_in_order",
         {.shared_bytes = kOrderedSumBytes},
         device.compute,
         add_norms_kernel,
         result,
         values,
         whole);
}

}  // namespace lockstep::cuda
