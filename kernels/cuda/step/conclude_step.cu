// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/exec/conclude.h"
#include "kernels/cuda/range_table.cuh"
#include "kernels/cuda/step/flat.h"
#include "kernels/cuda/step/ordered_sum.cuh"
#include "kernels/cuda/step/squared_norms.cuh"

// The end of a step: one block adds the tensors' squared norms in order, and its first thread
// writes the outcome. A few hundred bytes; bound by the latency of one fp64 addition a tensor.
// Where gradients are few the same block has squared them itself, one launch for three, and with
// the same bits: a team of threads takes a block of kNormBlock elements, then the first thread adds
// each tensor's blocks, and the tensors, in order. Bytes an element: 4.
namespace lockstep::cuda {
namespace {

__global__ void conclude_step_kernel(StepSums sums,
                                     const double* norms,
                                     std::int64_t count,
                                     StepOutcome* outcome) {
  wait_for_earlier_work();
  const double squares = ordered_sum(norms, 0, count, dynamic_shared<double>());
  if (threadIdx.x == 0) *outcome = outcome_of(sums, sqrt(squares));
}

/// As many as one multiprocessor reads in about the time of a launch.
constexpr std::int64_t kMaxSmallGradients = 65536;
constexpr int kTeams = kBlock / kNormTeam;
static_assert(sizeof(StepSums) + sizeof(RangeTable<FlatRange>) + 64 <= 4096,
              "the arguments of a kernel have 4 KiB");

/// One block. The tiles of `table` are blocks of kNormBlock elements, at most kTeams.
__global__ void __launch_bounds__(kBlock)
    conclude_small_step_kernel(StepSums sums,
                               const __grid_constant__ RangeTable<FlatRange> table,
                               bool aligned,
                               StepOutcome* outcome) {
  wait_for_earlier_work();
  auto* const partials = dynamic_shared<double>();
  const int team = int(threadIdx.x) / kNormTeam, tiles = table.tiles();
  const auto place = table.place_of(team < tiles ? team : 0);
  const std::int64_t offset = place.range.offset;
  const double partial = squared_norm_of_block(sums.gradients + offset,
                                               place.range.elems,
                                               place.tile,
                                               aligned && offset % kOwnNormLanes == 0);
  if (threadIdx.x % kNormTeam == 0 && team < tiles) partials[team] = partial;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double squares = 0;
  for (int range = 0, tile = 0; range < table.count; ++range) {
    double norm = 0;
    for (; tile < table.end_tile[range]; ++tile) norm += partials[tile];
    squares += norm;
  }
  *outcome = outcome_of(sums, sqrt(squares));
}

}  // namespace

void conclude_step(const Device& device,
                   const StepSums& sums,
                   const double* norms,
                   StepOutcome* outcome) {
  launch("conclude_step",
         {.shared_bytes = kOrderedSumBytes},
         device.compute,
         conclude_step_kernel,
         sums,
         norms,
         std::int64_t(sums.tensors.size()),
         outcome);
}

bool conclude_small_step(const Device& device, const StepSums& sums, StepOutcome* outcome) {
  std::int64_t elems = 0, tiles = 0;
  for (const FlatRange& tensor : sums.tensors) {
    elems += tensor.elems;
    tiles += ceil_div(tensor.elems, kNormBlock);
  }
  // A tensor with elements has a tile at least, so that all of them fit one table.
  static_assert(kTeams <= RangeTable<FlatRange>::kMax);
  if (elems == 0 || elems > kMaxSmallGradients || tiles > kTeams) return false;
  for_each_table(sums.tensors, kNormBlock, [&](const RangeTable<FlatRange>& table) {
    launch("conclude_small_step",
           {.shared_bytes = kTeams * sizeof(double)},
           device.compute,
           conclude_small_step_kernel,
           sums,
           table,
           aligned_to_packs(sums.gradients),
           outcome);
  });
  return true;
}

}  // namespace lockstep::cuda
