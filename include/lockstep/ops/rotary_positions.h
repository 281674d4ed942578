// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::ops {

/// Rotary positions (Su et al. 2021, section 3.2.2): of a head with D columns, pair i of position t
/// is turned by the angle t theta^(-2 i / D). With a `factor` above 1 frequencies are scaled as
/// Llama 3's, so that a model reads texts longer than those it was first trained on: what turns
/// less than `low_freq_factor` times in `original_context` positions turns `factor` times slower,
/// what turns more than `high_freq_factor` times turns as before, and between the two the
/// frequency is a mean of both, weighted by where the turns lie between the two factors.
struct RotaryPositions {
  float theta = 10000.0f;
  float factor = 1.0f;  ///< 1: frequencies are not scaled
  float low_freq_factor = 1.0f;
  float high_freq_factor = 4.0f;
  std::int64_t original_context = 8192;
  bool operator==(const RotaryPositions&) const = default;
};

}  // namespace lockstep::ops
