// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/run_state.h"
#include "core/exec/step_counters.h"
#include "kernels/cuda/launch.cuh"

namespace lockstep::cuda {

/// The counters of a launch, an argument of its kernel: those in device memory where there are any,
/// so that a launch that is recorded finds new ones, otherwise the values of the call.
struct LaunchCounters {
  const StepCounters* place = nullptr;
  StepCounters values = {};

  LaunchCounters() = default;
  explicit LaunchCounters(const RunState& state)
      : place(state.counters), values{.step = state.step, .first_sample = state.first_sample} {}

  __device__ std::uint64_t step() const { return place ? place->step : values.step; }
  __device__ std::uint64_t first_sample() const {
    return place ? place->first_sample : values.first_sample;
  }
  __device__ float lr() const { return place ? place->lr : values.lr; }
  __device__ bool first() const { return (place ? place->first : values.first) != 0; }
  __device__ double first_correction() const {
    return place ? place->first_correction : values.first_correction;
  }
  __device__ float root_correction() const {
    return place ? place->root_correction : values.root_correction;
  }
};

}  // namespace lockstep::cuda
