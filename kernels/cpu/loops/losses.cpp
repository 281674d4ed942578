// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/losses/losses.h"

#include "kernels/cpu/loops/columns.h"
#include "kernels/cpu/loops/simd_math.h"
#include "kernels/cpu/loops/simd_reduce.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

/// Rows whose logarithms are taken together: they overlap, while a single one is all latency.
constexpr std::int64_t kChunk = 8 * kLanes;

/// Of each row: the sum of e^(x - max), and x - max of the label and summed over the classes; with
/// soft labels also the weight, of the label's x - max the weighted sum.
struct RowStatistics {
  float sum[kChunk], target[kChunk], all[kChunk], weight[kChunk];
};

class CrossEntropy {
 public:
  template <typename T>
  explicit CrossEntropy(const CrossEntropyArgs<T>& a)
      : keep(1.0f - a.label_smoothing),
        smooth(a.label_smoothing / float(a.classes)),
        weight(a.row_weight) {}

  template <bool soft = false>
  LOCKSTEP_INLINE void add_losses(const RowStatistics& rows, std::int64_t count) {
    for_each_vec(count, [&](std::int64_t i, auto lanes) {
      Vec log_sum = log_from_one(load(rows.sum + i, lanes)), all = load(rows.all + i, lanes);
      if constexpr (soft) {
        log_sum = load(rows.weight + i, lanes) * log_sum;
        all = load(rows.weight + i, lanes) * all;
      }
      Vec loss = log_sum - broadcast(keep) * load(rows.target + i, lanes);
      if (smooth > 0) loss = loss - broadcast(smooth) * all;
      sum_ = sum_ + fold_f64(keep_lanes(loss, lanes));
    });
  }
  double sum() const { return total_pairwise(sum_); }

  const float keep, smooth, weight;

 private:
  VecF64 sum_ = zero_f64();
};

/// Few classes: rows are lanes, so that no sum crosses lanes.
template <int K, typename T>
LossSums few_classes(const CrossEntropyArgs<T>& a) {
  CrossEntropy loss(a);
  const Vec off = broadcast(-loss.weight * loss.smooth);
  const Vec on = broadcast(-loss.weight * (loss.keep + loss.smooth));
  LossSums sums;
  RowStatistics rows;
  for (std::int64_t chunk = 0; chunk < a.rows; chunk += kChunk) {
    const std::int64_t end = at_most(chunk + kChunk, a.rows);
    for (std::int64_t n = chunk; n < end; n += kLanes) {
      const std::int64_t count = at_most(end - n, kLanes);
      const VecI label = load_i32(a.labels + n, first_lanes(count));
      const VecI counts = label != broadcast_int(a.ignored);
      Vec x[K];
      load_columns<K>(a.logits + n * K, count, x);
      Vec top = x[0];
      VecI winner = broadcast_int(0);
#pragma GCC unroll 16
      for (int k = 1; k < K; ++k) {
        winner = x[k] > top ? broadcast_int(k) : winner;
        top = max(x[k], top);
      }
      Vec sum = zero(), target = zero(), all = zero();
#pragma GCC unroll 16
      for (int k = 0; k < K; ++k) {
        const Vec below = x[k] - top;
        target = label == broadcast_int(k) ? below : target;
        all = all + below;
        x[k] = exp_nonpositive(below);
        sum = sum + x[k];
      }
      store(rows.sum + (n - chunk), counts ? sum : broadcast(1.0f));
      store(rows.target + (n - chunk), counts ? target : zero());
      store(rows.all + (n - chunk), counts ? all : zero());
      sums.correct += count_true((winner == label) & counts, count);
      sums.counted += count_true(counts, count);
      if (a.dlogits == nullptr) continue;
      const Vec factor = broadcast(loss.weight) / sum;
#pragma GCC unroll 16
      for (int k = 0; k < K; ++k)
        x[k] = counts ? fma(x[k], factor, label == broadcast_int(k) ? on : off) : zero();
      store_columns<K>(a.dlogits + n * K, count, x);
    }
    loss.add_losses(rows, end - chunk);
  }
  sums.loss = loss.sum();
  return sums;
}

/// Whether one of `count` values is `wanted`.
template <typename T>
LOCKSTEP_INLINE bool contains(const T* x, std::int64_t count, float wanted) {
  int found = 0;
  for (std::int64_t i = 0; i < count && found == 0; i += kLanes) {
    const std::int64_t left = at_most(count - i, kLanes);
    found = count_true(load(x + i, first_lanes(left)) == broadcast(wanted), left);
  }
  return found > 0;
}

/// The largest element, in four chains: each waits for the one before.
template <typename T>
LOCKSTEP_INLINE float largest_of(const T* x, std::int64_t count) {
  constexpr int kChains = 4;
  Vec tops[kChains];
  for (Vec& top : tops) top = broadcast(-kInfinity);
  std::int64_t i = 0;
  for (; i + kChains * kLanes <= count; i += kChains * kLanes)
    for (int c = 0; c < kChains; ++c) tops[c] = max(load(x + i + c * kLanes), tops[c]);
  for_each_vec(count - i, [&](std::int64_t k, auto lanes) {
    tops[0] = max(load_or(x + i + k, lanes, broadcast(-kInfinity)), tops[0]);
  });
  return largest(max(max(tops[0], tops[1]), max(tops[2], tops[3])));
}

template <typename T>
LOCKSTEP_INLINE void set_zero(T* d, std::int64_t count) {
  for_each_vec(count, [=](std::int64_t i, auto lanes) { store(d + i, zero(), lanes); });
}

/// What a row that is ignored leaves: no loss, no gradient.
template <typename T>
LOCKSTEP_INLINE void ignore_row(T* d,
                                std::int64_t classes,
                                RowStatistics& rows,
                                std::int64_t index) {
  rows.sum[index] = 1;
  rows.target[index] = rows.all[index] = 0;
  if (d == nullptr) return;
  set_zero(d, classes);
}

/// Where the exponentials of a row wait for their sum: in the gradient if that is fp32, so that
/// they need not be computed again.
LOCKSTEP_INLINE float* exponentials_in(float* d) { return d; }
LOCKSTEP_INLINE float* exponentials_in(Bf16*) { return nullptr; }

/// Sums over one row whose largest logit is `top`; writes e^(x - top) to `exponentials` unless it
/// is null.
template <bool smoothed, typename T>
LOCKSTEP_INLINE void reduce_row(const T* x,
                                float* exponentials,
                                std::int64_t classes,
                                float top,
                                RowStatistics& rows,
                                std::int64_t index) {
  Vec sum = zero(), all = zero();
  for_each_vec(classes, [&](std::int64_t i, auto lanes) {
    const Vec below = load_or(x + i, lanes, broadcast(-kInfinity)) - broadcast(top);
    if constexpr (smoothed) all = all + keep_lanes(below, lanes);
    const Vec e = exp_nonpositive(below);
    sum = sum + e;
    if (exponentials != nullptr) store(exponentials + i, e, lanes);
  });
  rows.sum[index] = total(sum);
  rows.all[index] = total(all);
}

/// The label of a row, and what it adds to its logit's gradient.
struct RowLabel {
  std::int32_t label;
  float on;
};

/// dlogits from the exponentials, or from the logits where none were kept; they may overwrite both.
/// The labels differ.
template <std::size_t kLabels>
LOCKSTEP_INLINE void write_gradient(float* d,
                                    const float*,
                                    std::int64_t classes,
                                    const RowLabel (&labels)[kLabels],
                                    float,
                                    Vec factor,
                                    float off) {
  for_each_vec(classes, [&](std::int64_t i, auto lanes) {
    store(d + i, fma(load(d + i, lanes), factor, broadcast(off)), lanes);
  });
  for (const RowLabel& one : labels) d[one.label] += one.on;
}
template <std::size_t kLabels>
LOCKSTEP_INLINE void write_gradient(Bf16* d,
                                    const Bf16* x,
                                    std::int64_t classes,
                                    const RowLabel (&labels)[kLabels],
                                    float top,
                                    Vec factor,
                                    float off) {
  const auto gradient = [&](Vec logits) {
    return fma(exp_nonpositive(logits - broadcast(top)), factor, broadcast(off));
  };
  float of_label[kLabels];
  for (std::size_t i = 0; i < kLabels; ++i)
    of_label[i] = gradient(broadcast(widened(x[labels[i].label])))[0] + labels[i].on;
  for_each_vec(classes, [&](std::int64_t i, auto lanes) {
    store(d + i, gradient(load(x + i, lanes)), lanes);
  });
  for (std::size_t i = 0; i < kLabels; ++i) store_one(d + labels[i].label, of_label[i]);
}

/// A soft label: two classes and their weights.
struct SoftLabel {
  explicit SoftLabel(const float* pairs)
      : first(std::int32_t(pairs[0])),
        second(std::int32_t(pairs[2])),
        first_weight(pairs[1]),
        second_weight(pairs[3]),
        weight(pairs[1] + pairs[3]) {}
  /// Its class of the larger weight.
  std::int32_t likely() const { return second_weight > first_weight ? second : first; }

  const std::int32_t first, second;
  const float first_weight, second_weight, weight;
};

template <bool smoothed, typename T>
LossSums soft_classes(const CrossEntropyArgs<T>& a) {
  CrossEntropy loss(a);
  LossSums sums;
  RowStatistics rows;
  for (std::int64_t chunk = 0; chunk < a.rows; chunk += kChunk) {
    const std::int64_t end = at_most(chunk + kChunk, a.rows);
    for (std::int64_t n = chunk; n < end; ++n) {
      const T* const x = a.logits + n * a.pitch;
      T* const d = a.dlogits == nullptr ? nullptr : a.dlogits + n * a.pitch;
      if (d != nullptr) set_zero(d + a.classes, a.pitch - a.classes);
      const SoftLabel label(a.soft_labels + 4 * n);
      if (label.first < 0) {
        rows.weight[n - chunk] = 0;
        ignore_row(d, a.classes, rows, n - chunk);
        continue;
      }
      ++sums.counted;
      const float top = largest_of(x, a.classes);
      const float first = widened(x[label.first]), second = widened(x[label.second]);
      sums.correct += widened(x[label.likely()]) == top && !contains(x, label.likely(), top);
      const std::int64_t row = n - chunk;
      rows.weight[row] = label.weight;
      rows.target[row] = label.first_weight * (first - top) + label.second_weight * (second - top);
      reduce_row<smoothed>(x, exponentials_in(d), a.classes, top, rows, row);
      if (d == nullptr) continue;
      const float weight = loss.weight * label.weight;
      const Vec factor = broadcast(weight / rows.sum[row]);
      const float off = -weight * loss.smooth, on = -loss.weight * loss.keep;
      if (label.first == label.second)
        write_gradient(d, x, a.classes, {{label.first, on * label.weight}}, top, factor, off);
      else
        write_gradient(
            d,
            x,
            a.classes,
            {{label.first, on * label.first_weight}, {label.second, on * label.second_weight}},
            top,
            factor,
            off);
    }
    loss.template add_losses<true>(rows, end - chunk);
  }
  sums.loss = loss.sum();
  return sums;
}

template <bool smoothed, typename T>
LossSums many_classes(const CrossEntropyArgs<T>& a) {
  CrossEntropy loss(a);
  const float off = -loss.weight * loss.smooth, on = -loss.weight * loss.keep;
  LossSums sums;
  RowStatistics rows;
  for (std::int64_t chunk = 0; chunk < a.rows; chunk += kChunk) {
    const std::int64_t end = at_most(chunk + kChunk, a.rows);
    for (std::int64_t n = chunk; n < end; ++n) {
      const T* const x = a.logits + n * a.pitch;
      T* const d = a.dlogits == nullptr ? nullptr : a.dlogits + n * a.pitch;
      if (d != nullptr) set_zero(d + a.classes, a.pitch - a.classes);
      const std::int32_t label = a.labels[n];
      if (label == a.ignored) {
        ignore_row(d, a.classes, rows, n - chunk);
        continue;
      }
      ++sums.counted;
      const float of_label = widened(x[label]);
      const float top = largest_of(x, a.classes);
      sums.correct += of_label == top && !contains(x, label, top);
      rows.target[n - chunk] = of_label - top;
      reduce_row<smoothed>(x, exponentials_in(d), a.classes, top, rows, n - chunk);
      if (d == nullptr) continue;
      const Vec factor = broadcast(loss.weight / rows.sum[n - chunk]);
      write_gradient(d, x, a.classes, {{label, on}}, top, factor, off);
    }
    loss.add_losses(rows, end - chunk);
  }
  sums.loss = loss.sum();
  return sums;
}

template <typename T>
LossSums any_classes(const CrossEntropyArgs<T>& a) {
  return a.label_smoothing > 0 ? many_classes<true>(a) : many_classes<false>(a);
}

}  // namespace

template <typename T>
LossSums cross_entropy(const CrossEntropyArgs<T>& args) {
  if (args.soft_labels != nullptr)
    return args.label_smoothing > 0 ? soft_classes<true>(args) : soft_classes<false>(args);
  if (args.pitch != args.classes) return any_classes(args);
  // clang-format off
  switch (args.classes) {
    case 2: return few_classes<2>(args);
    case 3: return few_classes<3>(args);
    case 4: return few_classes<4>(args);
    case 5: return few_classes<5>(args);
    case 6: return few_classes<6>(args);
    case 7: return few_classes<7>(args);
    case 8: return few_classes<8>(args);
    case 9: return few_classes<9>(args);
    case 10: return few_classes<10>(args);
    default: return any_classes(args);
  }
  // clang-format on
}

void exp_nonpositive_array(float* y, const float* x, std::int64_t elems) {
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
    store(y + i, exp_nonpositive(load(x + i, lanes)), lanes);
  });
}

void log_from_one_array(float* y, const float* x, std::int64_t elems) {
  for_each_vec(elems, [=](std::int64_t i, auto lanes) {
    store(y + i, log_from_one(load(x + i, lanes)), lanes);
  });
}

LOCKSTEP_INSTANTIATE(cross_entropy);

}  // namespace lockstep::cpu::LOCKSTEP_ISA
