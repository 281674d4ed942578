// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"

/// Loops of the losses.
namespace lockstep::cpu {

/// Sums over the samples of a micro-batch, in order, before the sample weight.
struct LossSums {
  double loss = 0;
  std::int64_t correct = 0;
};

struct CrossEntropyArgs {
  const float* logits = nullptr;  ///< [samples, classes]
  const std::int32_t* labels = nullptr;
  float* dlogits = nullptr;  ///< may be `logits`; null: not wanted
  std::int64_t samples = 0, classes = 0;
  float label_smoothing = 0, sample_weight = 1;
};

struct SquaredErrorArgs {
  const float* x = nullptr;  ///< [samples, features]
  const float* target = nullptr;
  float* dx = nullptr;  ///< may be `x`; null: not wanted
  std::int64_t samples = 0, features = 0;
  float dx_factor = 0;  ///< dx = dx_factor * (x - target)
};

LOCKSTEP_LOOP(LossSums, cross_entropy, (const CrossEntropyArgs& args));
/// The sum of (x - target)^2; the features of a sample are summed in an order of their own.
LOCKSTEP_LOOP(double, squared_error, (const SquaredErrorArgs& args));

/// Element by element, for tests of their error: e^x for x <= 0 and ln x for x >= 1.
LOCKSTEP_LOOP(void, exp_nonpositive_array, (float* y, const float* x, std::int64_t elems));
LOCKSTEP_LOOP(void, log_from_one_array, (float* y, const float* x, std::int64_t elems));

}  // namespace lockstep::cpu
