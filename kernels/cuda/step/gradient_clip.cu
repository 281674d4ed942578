// SPDX-License-Identifier: Apache-2.0
#include "core/base/check.h"
#include "core/exec/gradient_clip.h"
#include "kernels/cuda/range_table.cuh"
#include "kernels/cuda/step/flat.h"
#include "kernels/cuda/step/squared_norms.cuh"
#include "kernels/cuda/step/step_outcome.cuh"

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

/// A UnitRange in so few bytes that a table has room for many.
struct Units {
  std::int64_t offset;
  std::int32_t unit, first, elems, norm, own, own_elems;
};

Units packed(const UnitRange& r) {
  for (const std::int64_t count : {r.unit, r.first + r.elems, r.own + r.own_elems})
    LOCKSTEP_ASSERT(count <= INT32_MAX);
  return {r.offset,
          std::int32_t(r.unit),
          std::int32_t(r.first),
          std::int32_t(r.elems),
          r.norm,
          std::int32_t(r.own),
          std::int32_t(r.norm < 0 ? r.unit : r.own_elems)};
}

constexpr int kUnitThreads = 64;
constexpr int kTeams = kUnitThreads / kNormTeam;
constexpr int kPieces = kTeams / 2;  // at once, of weights and of the gradient

/// Squared norms of the elements [begin, end) of a tensor, in thread 0, as UnitClip has them.
/// `gradients`: null where their norm is given: another block may be clipping a part of the unit.
struct UnitNorms {
  double weights = 0, gradients = 0;
};
__device__ inline UnitNorms unit_norms(const float* weights,
                                       const float* gradients,
                                       std::int64_t begin,
                                       std::int64_t end,
                                       bool packed,
                                       double* partials) {
  const int team = int(threadIdx.x) / kNormTeam;
  const std::int64_t first = begin / kNormBlock, pieces = (end - 1) / kNormBlock + 1 - first;
  const float* const values = team % 2 == 0 ? weights : gradients;
  UnitNorms norms;
  for (std::int64_t done = 0; done < pieces; done += kPieces) {
    const std::int64_t piece = first + done + team / 2;
    const std::int64_t low = piece * kNormBlock > begin ? piece * kNormBlock : begin;
    const std::int64_t high = (piece + 1) * kNormBlock < end ? (piece + 1) * kNormBlock : end;
    const double sum = squared_norm_of_block(
        values + low, values != nullptr ? high - low : 0, 0, packed && low % kOwnNormLanes == 0);
    if (threadIdx.x % kNormTeam == 0) partials[team] = sum;
    __syncthreads();
    for (int p = 0; threadIdx.x == 0 && p < kPieces && done + p < pieces; ++p) {
      norms.weights += partials[2 * p];
      norms.gradients += partials[2 * p + 1];
    }
    __syncthreads();
  }
  return norms;
}

__global__ void __launch_bounds__(kUnitThreads)
    clip_units_kernel(UnitClip clip,
                      const __grid_constant__ RangeTable<Units> table,
                      bool aligned) {
  if (forbids_updates(clip.outcome)) return;
  auto* const partials = dynamic_shared<double>();
  auto* const shared_factor = dynamic_shared<float>(kTeams * sizeof(double));
  const auto place = table.place_of(std::int32_t(blockIdx.x));
  const Units& range = place.range;
  const std::int64_t begin = (range.first + place.tile) * range.unit;
  float* const gradients = clip.gradients + range.offset;
  const UnitNorms norms = unit_norms(clip.weights + range.offset,
                                     range.norm < 0 ? gradients : nullptr,
                                     begin,
                                     begin + range.unit,
                                     aligned && range.offset % kOwnNormLanes == 0,
                                     partials);
  if (threadIdx.x == 0) {
    const double squares = range.norm < 0 ? norms.gradients : clip.norms[range.norm];
    const double scale = double(grad_scale_of(clip.outcome, 1.0f));
    *shared_factor = unit_factor(sqrt(norms.weights), scale * sqrt(squares), clip.factor);
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
  for_each_table<Units>(ranges, 1, packed, [&](const RangeTable<Units>& table) {
    launch("clip_units",
           {.grid = dim3(unsigned(table.tiles())),
            .block = dim3(kUnitThreads),
            .shared_bytes = kTeams * sizeof(double) + sizeof(float)},
           device.compute,
           clip_units_kernel,
           clip,
           table,
           aligned_to_packs(clip.gradients, clip.weights));
  });
}

}  // namespace lockstep::cuda
