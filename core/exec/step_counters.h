// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/optim/step_scalars.h"

namespace lockstep {

/// What changes from one micro-batch, or one step, to the next. In device memory, so that captured
/// work (DeviceGraph), whose arguments are fixed, finds the new values when it is done again.
/// Written by a copy of the host before each micro-batch.
struct StepCounters {
  std::uint64_t step = 0;          ///< RunState::step
  std::uint64_t first_sample = 0;  ///< RunState::first_sample
  StepScalars scalars = {};        ///< of the optimizer, for this step's update
  float lr = 0;                    ///< of this step's update
  float average_rate = 0;          ///< AverageUpdate::rate of this step
};

}  // namespace lockstep
