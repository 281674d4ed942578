// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/exec/run_state.h"
#include "core/exec/step_counters.h"
#include "kernels/cuda/launch.cuh"

namespace lockstep::cuda {

/// The counters of a launch, an argument of its kernel. They are read from device memory where the
/// step has them there, so that a replayed launch reads the current ones; otherwise the argument
/// holds the values.
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
  __device__ float average_rate() const {
    return place ? place->average_rate : values.average_rate;
  }
  /// Of the optimizer's StepScalars.
  __device__ double scalar(int index) const {
    return place ? place->scalars.values[index] : values.scalars.values[index];
  }
};

}  // namespace lockstep::cuda
