// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/check.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/range_table.cuh"
#include "kernels/cuda/step/flat.h"
#include "kernels/cuda/step/ordered_sum.cuh"
#include "kernels/cuda/step/squared_norms.cuh"
#include "kernels/cuda/step/step_counters.cuh"
#include "kernels/cuda/step/step_outcome.cuh"

// Work on flat arrays.
//   - Sums of squares: squared_norms.cuh. The sums of a range's blocks are added one after another
//     by one thread, which others feed through shared memory. Bytes an element: 4. Bound by memory;
//     the last step by the latency of one fp64 addition for every 16 KiB of the longest range.
//   - add: elementwise.cuh's; element by element where an address is not a multiple of 16. Bytes an
//     element: 12. Bound by memory.
//   - Average of the weights, and swap: a thread takes every element that is a whole number of
//     grids away, 4 bytes at a time. Bytes an element: 12, and 16. Bound by memory.
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
  wait_for_earlier_work();
  for (std::int64_t i = global_thread(); i < elems; i += all_threads()) out[i] = a[i] + b[i];
}

__global__ void update_average_kernel(float* average,
                                      const float* values,
                                      std::int64_t elems,
                                      const StepOutcome* outcome,
                                      LaunchCounters counters) {
  wait_for_earlier_work();
  if (forbids_updates(outcome)) return;
  const float rate = counters.average_rate();
  for (std::int64_t i = global_thread(); i < elems; i += all_threads())
    average[i] = average[i] + rate * (values[i] - average[i]);
}

__global__ void swap_kernel(float* a, float* b, std::int64_t elems) {
  wait_for_earlier_work();
  for (std::int64_t i = global_thread(); i < elems; i += all_threads()) {
    const float kept = a[i];
    a[i] = b[i];
    b[i] = kept;
  }
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
  wait_for_earlier_work();
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

constexpr int kNormThreads = 64;  // of a launch: few, so that small models use all
constexpr std::int64_t kNormTile = kNormThreads / kNormTeam * kNormBlock;

/// partials[b] = the sum of the squares of block b.
__global__ void __launch_bounds__(kNormThreads)
    block_norms_kernel(double* partials,
                       const float* values,
                       const __grid_constant__ RangeTable<BlockRange> table,
                       bool aligned) {
  wait_for_earlier_work();
  const auto place = table.place_of(std::int32_t(blockIdx.x));
  const std::int64_t offset = place.range.offset, elems = place.range.elems;
  const std::int64_t block =
      place.tile * (kNormThreads / kNormTeam) + std::int64_t(threadIdx.x / kNormTeam);
  const double sum =
      squared_norm_of_block(values + offset, elems, block, aligned && offset % kOwnNormLanes == 0);
  if (threadIdx.x % kNormTeam == 0 && block * kNormBlock < elems)
    partials[place.range.first + block] = sum;
}

/// Consecutive groups of values: those of group i are [first[i], first[i + 1]).
struct RangeBlocks {
  static constexpr int kMax = 256;
  std::int64_t first[kMax + 1];
};

__global__ void gather_kernel(const double* values,
                              const std::int32_t* places,
                              std::int64_t count,
                              double* result) {
  wait_for_earlier_work();
  const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) result[i] = values[places[i]];
}

/// A block a group.
__global__ void add_norms_kernel(double* result,
                                 const double* partials,
                                 const __grid_constant__ RangeBlocks ranges) {
  wait_for_earlier_work();
  const double sum = ordered_sum(
      partials, ranges.first[blockIdx.x], ranges.first[blockIdx.x + 1], dynamic_shared<double>());
  if (threadIdx.x == 0) result[blockIdx.x] = sum;
}

void launch_norms(const Device& device,
                  const float* values,
                  const RangeTable<BlockRange>& table,
                  double* result) {
  launch("block_norms",
         {.grid = dim3(unsigned(table.tiles())), .block = dim3(kNormThreads)},
         device.compute,
         block_norms_kernel,
         result,
         values,
         table,
         aligned_to_packs(values));
}

/// end_of(i): one past the last value of group i; called in order.
template <typename EndOf>
void add_groups(
    const Device& device, const double* values, std::size_t groups, double* result, EndOf end_of) {
  RangeBlocks table{};
  for (std::size_t done = 0; done < groups; done += RangeBlocks::kMax) {
    const std::size_t count = std::min(groups - done, std::size_t{RangeBlocks::kMax});
    for (std::size_t i = 0; i < count; ++i) table.first[i + 1] = end_of(done + i);
    launch("add_norms",
           {.grid = dim3(unsigned(count)), .shared_bytes = kOrderedSumBytes},
           device.compute,
           add_norms_kernel,
           result + done,
           values,
           table);
    table.first[0] = table.first[count];
  }
}

}  // namespace

void add(const Device& device, float* out, const float* a, const float* b, std::int64_t elems) {
  if (aligned_to_packs(out, a, b))
    map("flat_add", AddTwo{}, out, elems, device.compute, a, b);
  else
    launch("flat_add", cover(elems), device.compute, add_unaligned_kernel, out, a, b, elems);
}

void update_average(const Device& device, const AverageUpdate& update) {
  LaunchCounters counters;
  counters.place = update.counters;
  counters.values = {.average_rate = update.rate};
  launch("update_average",
         cover(update.elems),
         device.compute,
         update_average_kernel,
         update.average,
         update.values,
         update.elems,
         update.outcome,
         counters);
}

void swap(const Device& device, float* a, float* b, std::int64_t elems) {
  launch("swap", cover(elems), device.compute, swap_kernel, a, b, elems);
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
  for_each_table<BlockRange>(
      ranges,
      kNormTile,
      [&](const FlatRange& range) {
        const std::int64_t first = blocks;
        blocks += ceil_div(range.elems, kNormBlock);
        return BlockRange{range.offset, range.elems, first};
      },
      [&](const RangeTable<BlockRange>& table) { launch_norms(device, values, table, partials); });
  std::int64_t end = 0;
  add_groups(device, partials, ranges.size(), result, [&](std::size_t i) {
    return end += ceil_div(ranges[i].elems, kNormBlock);
  });
}

void block_norms(const Device& device,
                 const float* values,
                 std::span<const BlockRange> ranges,
                 double* result) {
  for_each_table<BlockRange>(
      ranges,
      kNormTile,
      [](const BlockRange& range) { return range; },
      [&](const RangeTable<BlockRange>& table) { launch_norms(device, values, table, result); });
}

void gather(const Device& device,
            const double* values,
            const std::int32_t* places,
            std::int64_t count,
            double* result) {
  launch("gather", cover(count), device.compute, gather_kernel, values, places, count, result);
}

void add_in_order(const Device& device,
                  const double* values,
                  std::span<const std::int64_t> ends,
                  double* result) {
  add_groups(device, values, ends.size(), result, [&](std::size_t i) { return ends[i]; });
}

}  // namespace lockstep::cuda
