// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/losses/cross_entropy_row.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/step/staged.cuh"

/// Softmax, cross-entropy and its gradient for few rows of few classes, by one block with any
/// multiple of 32 threads: a row a thread, then the last warp, which has least to do in steps
/// around it, adds the rows.
namespace lockstep::cuda {

/// Some 80 instructions an element, two or three exponentials among them, of which a multiprocessor
/// does 128 a cycle: about 2,600 cycles.
inline constexpr std::int64_t kMaxSmallLossRows = 256, kMaxSmallLossClasses = 16;

struct SmallLoss {
  CrossEntropy<float> work;  ///< its losses and states lie in the block's shared memory
  LossOutputs outputs;       ///< which add where the run accumulates
  /// In shared memory, or nowhere.
  StagedAt logits_at, labels_at, weight_at, dlogits_at;
};

inline constexpr std::size_t kSmallLossSharedBytes =
    std::size_t(kMaxSmallLossRows) * (sizeof(float) + sizeof(std::int32_t));

/// All of row `row` by this thread. `x`: its logits. `staged`: where its gradients are wanted as
/// well, or null.
__device__ inline void run_row(const CrossEntropy<float>& a,
                               int row,
                               const float* x,
                               float* staged) {
  const int classes = int(a.classes), pitch = int(a.pitch);
  const std::int32_t label = a.labels[row];
  float* const d = a.dlogits == nullptr ? nullptr : a.dlogits + row * pitch;
  const auto store = [&](int i, float gradient) {
    d[i] = gradient;
    if (staged != nullptr) staged[i] = gradient;
  };
  if (d != nullptr) {
#pragma unroll 1
    for (int i = classes; i < pitch; ++i) d[i] = 0.0f;
  }
  if (label == a.ignored) {
    a.losses[row] = 0.0f;
    a.states[row] = kIgnored;
    if (d != nullptr) {
#pragma unroll 1
      for (int i = 0; i < classes; ++i) store(i, 0.0f);
    }
    return;
  }
  const bool smoothed = a.label_smoothing > 0.0f;
  RowSums<float> sums;
#pragma unroll 1
  for (int i = 0; i < classes; ++i) {
    const float value[1] = {x[i]};
    sums.add(i, value, smoothed);
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
#pragma unroll 1
  for (int i = 0; i < classes; ++i) store(i, gradient_off_label<float>(x[i], gradient));
  store(label, gradient_of_label<float>(result.of_label, gradient));
}

/// Lane l of a warp adds rows l, l + 32, ... in order, then the lanes add pairwise.
__device__ inline void add_rows_of_warp(const CrossEntropy<float>& a,
                                        LossOutputs outputs,
                                        bool accumulate) {
  const int lane = int(threadIdx.x) % kWarp;
  double loss = 0;
  int correct = 0, counted = 0;
#pragma unroll 1
  for (int r = lane; r < int(a.rows); r += kWarp) {
    loss += double(a.losses[r]);
    correct += a.states[r] == kCorrect;
    counted += a.states[r] != kIgnored;
  }
  const double sums[3] = {warp_reduce(loss, Sum{}),
                          double(warp_reduce(correct, Sum{})),
                          double(warp_reduce(counted, Sum{}))};
  if (lane != 0) return;
  for (bool& add : outputs.add) add = add && accumulate;
  store_sums(outputs, sums, row_weight(a.sample_weight, a.tokens));
}

/// `rows`: kSmallLossSharedBytes of shared memory.
__device__ inline void run_step(const SmallLoss& s, bool accumulate, float* shared, float* rows) {
  CrossEntropy<float> work = s.work;
  work.losses = rows;
  work.states = reinterpret_cast<std::int32_t*>(rows + kMaxSmallLossRows);
  if (is_staged(s.labels_at))
    work.labels = reinterpret_cast<const std::int32_t*>(shared + s.labels_at);
  if (is_staged(s.weight_at)) work.sample_weight = shared + s.weight_at;
  const int pitch = staged_pitch(int(work.classes));
  for (int row = int(threadIdx.x); row < int(work.rows); row += int(blockDim.x))
    run_row(work,
            row,
            is_staged(s.logits_at) ? shared + s.logits_at + row * pitch
                                   : work.logits + row * int(work.pitch),
            is_staged(s.dlogits_at) ? shared + s.dlogits_at + row * pitch : nullptr);
  __syncthreads();
  if (int(threadIdx.x) >= int(blockDim.x) - kWarp) add_rows_of_warp(work, s.outputs, accumulate);
}

}  // namespace lockstep::cuda
