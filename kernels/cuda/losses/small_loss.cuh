// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/losses/cross_entropy_row.cuh"
#include "kernels/cuda/reduce.cuh"

/// Softmax, cross-entropy and its gradient for few rows of few classes, by one block with any
/// multiple of 32 threads: a row a thread, then the first warp adds the rows.
namespace lockstep::cuda {

/// Some 80 instructions an element, two or three exponentials among them, of which a multiprocessor
/// does 128 a cycle: about 2,600 cycles.
inline constexpr std::int64_t kMaxSmallLossRows = 256, kMaxSmallLossClasses = 16;

struct SmallLoss {
  CrossEntropy<float> work;  ///< its losses and states lie in the block's shared memory
  LossOutputs outputs;       ///< which add where the run accumulates
};

inline constexpr std::size_t kSmallLossSharedBytes =
    std::size_t(kMaxSmallLossRows) * (sizeof(float) + sizeof(std::int32_t));

/// All of row `row` by this thread.
__device__ inline void run_row(const CrossEntropy<float>& a, std::int64_t row) {
  const std::int32_t label = a.labels[row];
  const float* const x = a.logits + row * a.pitch;
  float* const d = a.dlogits == nullptr ? nullptr : a.dlogits + row * a.pitch;
  if (d != nullptr)
    for (std::int64_t i = a.classes; i < a.pitch; ++i) d[i] = 0.0f;
  if (label == a.ignored) {
    a.losses[row] = 0.0f;
    a.states[row] = kIgnored;
    if (d != nullptr)
      for (std::int64_t i = 0; i < a.classes; ++i) d[i] = 0.0f;
    return;
  }
  const bool smoothed = a.label_smoothing > 0.0f;
  RowSums<float> sums;
  for (std::int64_t i = 0; i < a.classes; ++i) {
    const float value[1] = {x[i]};
    sums.add(int(i), value, smoothed);
  }
  const RowResult result{.top = sums.top(),
                         .winner = sums.index_of(sums.top()),
                         .sum = sums.sum_below(sums.top()),
                         .all = sums.all(),
                         .label = label,
                         .of_label = x[label]};
  store_loss(a, row, result);
  if (d == nullptr) return;
  const RowGradient gradient = gradient_factors(a, result);
  for (std::int64_t i = 0; i < a.classes; ++i) d[i] = gradient_off_label<float>(x[i], gradient);
  d[label] = gradient_of_label<float>(result.of_label, gradient);
}

/// Lane l of a warp adds rows l, l + 32, ... in order, then the lanes add pairwise.
__device__ inline void add_rows_of_warp(const SmallLoss& s,
                                        const float* losses,
                                        const std::int32_t* states,
                                        bool accumulate) {
  double loss = 0;
  int correct = 0, counted = 0;
  for (std::int64_t r = threadIdx.x; r < s.work.rows; r += kWarp) {
    loss += double(losses[r]);
    correct += states[r] == kCorrect;
    counted += states[r] != kIgnored;
  }
  const double sums[3] = {warp_reduce(loss, Sum{}),
                          double(warp_reduce(correct, Sum{})),
                          double(warp_reduce(counted, Sum{}))};
  if (threadIdx.x != 0) return;
  LossOutputs outputs = s.outputs;
  for (bool& add : outputs.add) add = add && accumulate;
  store_sums(outputs, sums, row_weight(s.work.sample_weight, s.work.tokens));
}

/// `shared`: kSmallLossSharedBytes.
__device__ inline void run_step(const SmallLoss& s, bool accumulate, unsigned char* shared) {
  CrossEntropy<float> work = s.work;
  work.losses = reinterpret_cast<float*>(shared);
  work.states = reinterpret_cast<std::int32_t*>(work.losses + kMaxSmallLossRows);
  for (std::int64_t row = threadIdx.x; row < work.rows; row += blockDim.x) run_row(work, row);
  __syncthreads();
  if (threadIdx.x < kWarp) add_rows_of_warp(s, work.losses, work.states, accumulate);
}

}  // namespace lockstep::cuda
