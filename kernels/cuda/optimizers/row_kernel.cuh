// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/optimizers/update_kernel.cuh"
#include "kernels/cuda/step/unit_norms.cuh"

/// The kernel of the phase of rows: a block takes one row, sums its squares unless they are given,
/// and goes over it again. A rule has enter(const RowFacts&) and, for one element,
/// direction(float direction, float& state). Bound by memory, of which many blocks read at once:
/// 20 bytes an element, 4 of them from a cache.
namespace lockstep::cuda {

struct RowFacts {
  double squares = 0, elems = 0;
};

template <typename Rule>
__global__ void __launch_bounds__(kUnitThreads)
    row_kernel(const __grid_constant__ RangeTable<Units> table,
               float* grads,
               float* state,
               const double* row_norms,
               const StepOutcome* outcome,
               bool aligned,
               Rule rule) {
  wait_for_earlier_work();
  if (forbids_updates(outcome)) return;
  auto* const partials = dynamic_shared<double>();
  auto* const shared_squares = dynamic_shared<double>(kUnitTeams * sizeof(double));
  const auto place = table.place_of(std::int32_t(blockIdx.x));
  const Units& rows = place.range;
  const std::int64_t begin = (rows.first + place.tile) * rows.unit;
  float* const directions = grads + rows.offset;
  UnitSquares<1> sum;
  if (rows.norm >= 0)
    sum.of[0] = row_norms[rows.norm];
  else
    sum = squares_of_unit<1>({{directions}},
                             begin,
                             begin + rows.unit,
                             aligned && rows.offset % kOwnNormLanes == 0,
                             partials);
  if (threadIdx.x == 0) *shared_squares = sum.of[0];
  __syncthreads();
  rule.enter({.squares = *shared_squares, .elems = double(rows.unit)});
  float* const own = directions + begin + rows.own;
  float* const own_state = state + rows.offset + begin + rows.own;
  for (std::int32_t i = std::int32_t(threadIdx.x); i < rows.own_elems; i += kUnitThreads)
    own[i] = rule.direction(own[i], own_state[i]);
}

/// Enqueues it for OptimizerUpdate::rows with array `array` of the state; `name`: a literal.
template <typename Rule>
void launch_rows(const char* name,
                 const Device& device,
                 const Rule& rule,
                 const OptimizerUpdate& update,
                 std::size_t array) {
  for_each_table<Units>(update.rows, 1, units_of, [&](const RangeTable<Units>& table) {
    launch(name,
           {.grid = dim3(unsigned(table.tiles())),
            .block = dim3(kUnitThreads),
            .shared_bytes = (kUnitTeams + 1) * sizeof(double)},
           device.compute,
           row_kernel<Rule>,
           table,
           update.grads,
           update.state[array],
           update.row_norms,
           update.outcome,
           aligned_to_packs(update.grads),
           rule);
  });
}

}  // namespace lockstep::cuda
