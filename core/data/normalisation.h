// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

// Mean and deviation of the training pixels in [0, 1], as everyone rounds them.
inline constexpr float kMnistMean[] = {0.1307f}, kMnistDeviation[] = {0.3081f};
inline constexpr float kImageNetMean[] = {0.485f, 0.456f, 0.406f},
                       kImageNetDeviation[] = {0.229f, 0.224f, 0.225f};

/// Bytes x become (x / 255 - mean) / deviation, of one value a channel.
template <std::size_t channels>
void normalise(SampleSpec& spec,
               const float (&mean)[channels],
               const float (&deviation)[channels]) {
  for (std::size_t c = 0; c < channels; ++c) {
    spec.scale.push_back(1.0f / 255.0f / deviation[c]);
    spec.shift.push_back(-mean[c] / deviation[c]);
  }
}

}  // namespace lockstep::data
