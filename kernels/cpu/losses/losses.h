// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/isa.h"

/// Loops of the losses.
namespace lockstep::cpu {

/// Sums over the rows (or elements) of a micro-batch before the weight of a row: row n is added, in
/// fp64, to partial sum n % (kLanes / 2) of the instruction set, and the partial sums pairwise.
struct LossSums {
  double loss = 0;
  std::int64_t correct = 0;
  std::int64_t counted = 0;  ///< rows that are not ignored
};

/// No label is this; the default for rows to ignore.
inline constexpr std::int32_t kNoLabel = INT32_MIN;

template <typename T>
struct CrossEntropyArgs {
  const T* logits = nullptr;  ///< [rows, pitch], of which `classes` columns count
  const std::int32_t* labels = nullptr;
  const float* soft_labels = nullptr;  ///< [rows, 2, 2]: classes and weights, or a first class
                                       ///< below 0 where a row is ignored; instead of `labels`
  T* dlogits = nullptr;  ///< as logits, zero after the classes; may be `logits`; null: not wanted
  std::int64_t rows = 0, classes = 0, pitch = 0;
  float label_smoothing = 0, row_weight = 1;
  std::int32_t ignored = kNoLabel;  ///< rows with this label count in nothing
};

/// Of the losses whose target has the shape of the prediction.
struct ElementLossArgs {
  const float* x = nullptr;  ///< [samples, features]: predictions or logits
  const float* target = nullptr;
  float* dx = nullptr;  ///< may be `x`; null: not wanted
  std::int64_t samples = 0, features = 0;
  float dx_factor = 0;  ///< dx = dx_factor * what the loop says
  float delta = 0;      ///< huber_error
};

/// Of rows of student and teacher, each [rows, classes].
struct DistillationArgs {
  const float* x = nullptr;  ///< the student's logits
  const float* teacher = nullptr;
  float* dx = nullptr;  ///< may be `x`; null: not wanted
  std::int64_t rows = 0, classes = 0;
  float inverse_temperature = 1;
  float dx_factor = 0;  ///< of p - q
  bool hard = false;    ///< q is one at the teacher's likeliest class; needs temperature 1
};

LOCKSTEP_STORED_LOOP(LossSums, cross_entropy, (const CrossEntropyArgs<T>& args));
/// The sum of the losses of the differences d = x - target; the features of a sample are summed in
/// an order of their own. squared_error: d^2, and dx = dx_factor * d.
LOCKSTEP_LOOP(double, squared_error, (const ElementLossArgs& args));
/// |d|, and dx = dx_factor * sign(d).
LOCKSTEP_LOOP(double, absolute_error, (const ElementLossArgs& args));
/// d^2 / 2 up to `delta`, then delta (|d| - delta / 2), and dx = dx_factor * (d, at most +-delta).
LOCKSTEP_LOOP(double, huber_error, (const ElementLossArgs& args));
/// Binary cross-entropy with logits, a row for each element; `counted` stays 0. dx = dx_factor *
/// (sigmoid(x) - target).
LOCKSTEP_LOOP(LossSums, binary_cross_entropy, (const ElementLossArgs& args));

/// The sum over rows of KL(q || p), p and q being the softmax of x and of the teacher over the
/// temperature; with `hard` of -log p of the teacher's likeliest class. A row is summed in fp32.
LOCKSTEP_LOOP(double, distillation, (const DistillationArgs& args));

/// Element by element, for tests of their error: e^x for x <= 0 and ln x for x >= 1.
LOCKSTEP_LOOP(void, exp_nonpositive_array, (float* y, const float* x, std::int64_t elems));
LOCKSTEP_LOOP(void, log_from_one_array, (float* y, const float* x, std::int64_t elems));

}  // namespace lockstep::cpu
