// SPDX-License-Identifier: Apache-2.0
#include "core/exec/gradient_clip.h"
#include "kernels/cuda/step/flat.h"
#include "kernels/cuda/step/step_outcome.cuh"
#include "kernels/cuda/step/unit_norms.cuh"

// Clipping of gradients, in place, before an update.
//   - By value: a block takes one tile of a range, a thread four neighbours at a time where
//     addresses allow. Bytes an element: 8. Bound by memory.
//   - By unit: a block takes one unit. Teams of threads square pieces of its weights and of its
//     gradient (squared_norms.cuh), the first thread adds them in order, and all multiply. Bytes an
//     element: 8, and 8 more of a unit that is clipped. Bound by memory, of which many blocks read
//     at once; a long vector by the one block that it is.
namespace lockstep::cuda {
namespace {

constexpr std::int64_t kClipTile = 4096;

__global__ void clip_values_kernel(float* gradients,
                                   float limit,
                                   const __grid_constant__ RangeTable<FlatRange> table,
                                   bool aligned,
                                   const StepOutcome* outcome) {
  wait_for_earlier_work();
  if (forbids_updates(outcome)) return;
  const float unscaled = unscaled_limit(limit, grad_scale_of(outcome, 1.0f));
  const auto place = table.place_of(std::int32_t(blockIdx.x));
  const std::int64_t begin = place.tile * kClipTile, end = begin + kClipTile;
  for_each_in_tile(begin,
                   end < place.range.elems ? end : place.range.elems,
                   aligned && place.range.offset % Pack<float>::kElems == 0,
                   [&](std::int64_t i, auto width) {
                     constexpr int kWidth = decltype(width)::value;
                     float* const at = gradients + place.range.offset + i;
                     Floats<kWidth> values = load_floats<kWidth>(at);
#pragma unroll
                     for (int k = 0; k < kWidth; ++k)
                       values.values[k] = clipped_value(values.values[k], unscaled);
                     store_floats(at, values);
                   });
}

__global__ void __launch_bounds__(kUnitThreads)
    clip_units_kernel(UnitClip clip,
                      const __grid_constant__ RangeTable<Units> table,
                      bool aligned) {
  wait_for_earlier_work();
  if (forbids_updates(clip.outcome)) return;
  auto* const partials = dynamic_shared<double>();
  auto* const shared_factor = dynamic_shared<float>(kUnitTeams * sizeof(double));
  const auto place = table.place_of(std::int32_t(blockIdx.x));
  const Units& range = place.range;
  const std::int64_t begin = (range.first + place.tile) * range.unit;
  float* const gradients = clip.gradients + range.offset;
  // Of a unit whose norms are given another block may be clipping a part.
  UnitSquares<2> norms;
  if (range.norm >= 0)
    norms = {{clip.weight_norms[range.norm], clip.gradient_norms[range.norm]}};
  else
    norms = squares_of_unit<2>({{clip.weights + range.offset, gradients}},
                               begin,
                               begin + range.unit,
                               aligned && range.offset % kOwnNormLanes == 0,
                               partials);
  if (threadIdx.x == 0) {
    const double scale = double(grad_scale_of(clip.outcome, 1.0f));
    *shared_factor = unit_factor(sqrt(norms.of[0]), scale * sqrt(norms.of[1]), clip.factor);
  }
  __syncthreads();
  const float factor = *shared_factor;
  if (factor == 1.0f) return;
  float* const own = gradients + begin + range.own;
  for (std::int32_t i = std::int32_t(threadIdx.x); i < range.own_elems; i += kUnitThreads)
    own[i] = factor * own[i];
}

}  // namespace

void clip_values(const Device& device,
                 float* gradients,
                 float limit,
                 std::span<const FlatRange> ranges,
                 const StepOutcome* outcome) {
  for_each_table(ranges, kClipTile, [&](const RangeTable<FlatRange>& table) {
    launch("clip_values",
           {.grid = dim3(unsigned(table.tiles()))},
           device.compute,
           clip_values_kernel,
           gradients,
           limit,
           table,
           aligned_to_packs(gradients),
           outcome);
  });
}

void clip_units(const Device& device, const UnitClip& clip, std::span<const UnitRange> ranges) {
  // A tile is a unit.
  for_each_table<Units>(ranges, 1, units_of, [&](const RangeTable<Units>& table) {
    launch("clip_units",
           {.grid = dim3(unsigned(table.tiles())),
            .block = dim3(kUnitThreads),
            .shared_bytes = kUnitTeams * sizeof(double) + sizeof(float)},
           device.compute,
           clip_units_kernel,
           clip,
           table,
           aligned_to_packs(clip.gradients, clip.weights));
  });
}

}  // namespace lockstep::cuda
