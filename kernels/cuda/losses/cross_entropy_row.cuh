// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfloat>
#include <cmath>

#include "kernels/cuda/arithmetic.cuh"

/// What kernels of softmax and cross-entropy do with one row, by a block or by a thread.
namespace lockstep::cuda {

/// No label is this; the default for rows to ignore.
inline constexpr std::int32_t kNoLabel = INT32_MIN;

enum RowState : std::int32_t { kIgnored = 0, kWrong = 1, kCorrect = 2 };

template <typename T>
struct CrossEntropy {
  const T* logits;  ///< [rows, pitch], of which `classes` columns count
  const std::int32_t* labels;
  const float* sample_weight;
  T* dlogits;  ///< as logits, zero after the classes; may be `logits`; null: not wanted
  std::int64_t rows, classes, pitch, tokens;
  float label_smoothing;
  std::int32_t ignored;
  float* losses;         ///< [rows], before the weight
  std::int32_t* states;  ///< [rows], RowState
};

/// What a row counts in the sums.
__device__ inline float row_weight(const float* sample_weight, std::int64_t tokens) {
  return tokens == 0 ? 0.0f : sample_weight[0] / float(tokens);
}

/// What a thread knows of the elements that it has met, in the order of their indices.
template <typename T>
class RowSums {
 public:
  /// Elements [first, first + N), as values[i].
  template <int N>
  __device__ void add(int first, const T (&values)[N], bool smoothed) {
    float x[N], most = -INFINITY;
    for (int i = 0; i < N; ++i) {
      x[i] = to_float(values[i]);
      most = fmaxf(most, x[i]);  // skips NaN
    }
    if (most > top_) {
      sum_ *= exp_for<T>(top_ - most);
      top_ = most;
      for (int i = N - 1; i >= 0; --i)
        if (x[i] == most) index_ = first + i;
    }
    for (int i = 0; i < N; ++i) sum_ += exp_for<T>(x[i] - top_);
    if (smoothed)
      for (int i = 0; i < N; ++i) all_ += x[i];
  }

  __device__ float top() const { return top_; }
  __device__ std::int32_t index_of(float top) const { return top_ == top ? index_ : INT32_MAX; }
  /// The sum of the exponentials of differences to `top`, which is at least the own one.
  __device__ float sum_below(float top) const { return sum_ * exp_for<T>(top_ - top); }
  __device__ float all() const { return all_; }

 private:
  float top_ = -FLT_MAX;  // differences to -infinity would be no numbers
  std::int32_t index_ = INT32_MAX;
  float sum_ = 0, all_ = 0;
};

/// What a row that counts has come to.
struct RowResult {
  float top;            ///< largest logit
  std::int32_t winner;  ///< the first class that has it
  float sum;            ///< of e^(x - top)
  float all;            ///< of the logits, where labels are smoothed
  std::int32_t label;
  float of_label;  ///< the label's logit
};

/// A soft label: two classes and their weights; a first class below 0: the row is ignored.
struct SoftLabel {
  std::int32_t first, second;
  float first_weight, second_weight;

  __device__ float weight() const { return first_weight + second_weight; }
  /// The class of the larger weight.
  __device__ std::int32_t likely() const { return second_weight > first_weight ? second : first; }
};
__device__ inline SoftLabel soft_label(const float* pairs) {
  return {std::int32_t(pairs[0]), std::int32_t(pairs[2]), pairs[1], pairs[3]};
}

template <typename T>
__device__ inline void store_loss(const CrossEntropy<T>& a, std::int64_t row, const RowResult& r) {
  const float keep = 1.0f - a.label_smoothing, smooth = a.label_smoothing / float(a.classes);
  float loss = logf(r.sum) - keep * (r.of_label - r.top);
  if (a.label_smoothing > 0.0f) loss -= smooth * (r.all - float(a.classes) * r.top);
  a.losses[row] = loss;
  a.states[row] = r.winner == r.label ? kCorrect : kWrong;
}

/// `of_label`: the weighted sum of its logits' differences to the top.
template <typename T>
__device__ inline void store_soft_loss(const CrossEntropy<T>& a,
                                       std::int64_t row,
                                       const RowResult& r,
                                       const SoftLabel& label) {
  const float keep = 1.0f - a.label_smoothing, smooth = a.label_smoothing / float(a.classes);
  float loss = label.weight() * logf(r.sum) - keep * r.of_label;
  if (a.label_smoothing > 0.0f)
    loss -= smooth * (label.weight() * (r.all - float(a.classes) * r.top));
  a.losses[row] = loss;
  a.states[row] = r.winner == r.label ? kCorrect : kWrong;
}

/// Of one row: what its gradient is made of.
struct RowGradient {
  float top, factor, off, on;
};

template <typename T>
__device__ inline RowGradient gradient_factors(const CrossEntropy<T>& a, const RowResult& r) {
  const float keep = 1.0f - a.label_smoothing, smooth = a.label_smoothing / float(a.classes);
  const float weight = row_weight(a.sample_weight, a.tokens);
  return {.top = r.top, .factor = weight / r.sum, .off = -weight * smooth, .on = -weight * keep};
}
/// `on`: of a class of weight 1.
template <typename T>
__device__ inline RowGradient soft_gradient_factors(const CrossEntropy<T>& a,
                                                    const RowResult& r,
                                                    const SoftLabel& label) {
  const float keep = 1.0f - a.label_smoothing, smooth = a.label_smoothing / float(a.classes);
  const float one = row_weight(a.sample_weight, a.tokens), weight = one * label.weight();
  return {.top = r.top, .factor = weight / r.sum, .off = -weight * smooth, .on = -one * keep};
}

/// Of the loss for a logit, as if it were not the label's: a kernel writes these, which need no
/// comparison, and then the label's over its own.
template <typename T>
__device__ inline float gradient_off_label(float x, const RowGradient& g) {
  return fmaf(exp_for<T>(x - g.top), g.factor, g.off);
}
template <typename T>
__device__ inline float gradient_of_label(float x, const RowGradient& g) {
  return gradient_off_label<T>(x, g) + g.on;
}

/// Where the sums go; null: not wanted.
struct LossOutputs {
  float* values[3];  ///< loss, correct, counted
  bool add[3];       ///< to what is there
};

/// `sums`: of loss, correct and counted, over rows that count `weight` each.
__device__ inline void store_sums(const LossOutputs& outputs,
                                  const double (&sums)[3],
                                  float weight) {
  for (int i = 0; i < 3; ++i) {
    if (outputs.values[i] == nullptr) continue;
    const auto value = float(sums[i] * double(weight));
    float& output = *outputs.values[i];
    output = outputs.add[i] ? output + value : value;
  }
}

}  // namespace lockstep::cuda
