// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

namespace lockstep {

/// What changes from one micro-batch, or one step, to the next. In device memory, so that captured
/// work (DeviceGraph), whose arguments are fixed, finds the new values when it is done again.
/// Written by a copy of the host before each micro-batch.
struct StepCounters {
  std::uint64_t step = 0;          ///< RunState::step
  std::uint64_t first_sample = 0;  ///< RunState::first_sample
  double first_correction = 1;     ///< of AdamW: 1 - beta1^t, t = step + 1
  float root_correction = 1;       ///< of AdamW: 1 / sqrt(1 - beta2^t)
  float lr = 0;                    ///< of this step's update
  std::uint32_t first = 0;         ///< 1 in step 0, where momentum begins
};

/// Sets what AdamW's update number t = counters.step + 1 corrects by: Kingma and Ba 2015,
/// algorithm 1.
inline void correct_bias(StepCounters& counters, float beta1, float beta2) {
  const auto t = double(counters.step + 1);
  counters.first_correction = 1.0 - std::pow(double(beta1), t);
  counters.root_correction = float(1.0 / std::sqrt(1.0 - std::pow(double(beta2), t)));
}

}  // namespace lockstep
