// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string>

#include "core/base/random.h"
#include "core/exec/run_state.h"
#include "kernels/cpu/elementwise.h"

namespace lockstep::cpu {

/// What a node that drops elements keeps from its construction: see ops::Dropout.
class KeyedDropout {
 public:
  /// rate in [0, 1) has 24 bits, so the threshold is below 2^32.
  KeyedDropout(float rate, std::string path)
      : path_(std::move(path)),
        threshold_(std::uint32_t(std::llround(double(rate) * 0x1p32))),
        scale_(float(1.0 / (1.0 - double(rate)))) {}

  DropoutStream at(const RunState& state) const {
    return {.key = random_key(state.seed, path_),
            .step = state.step,
            .first_sample = state.first_sample,
            .threshold = threshold_,
            .scale = scale_};
  }

 private:
  std::string path_;
  std::uint32_t threshold_;
  float scale_;
};

}  // namespace lockstep::cpu
