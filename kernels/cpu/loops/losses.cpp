// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/losses.h"

#include "kernels/cpu/loops/columns.h"
#include "kernels/cpu/loops/simd_math.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

constexpr float kInfinity = __builtin_inff();

/// Lanes outside the mask are `other`.
LOCKSTEP_INLINE Vec load_or(const float* from, AllLanes, Vec) { return load(from); }
#ifdef __AVX512F__
LOCKSTEP_INLINE Vec load_or(const float* from, Mask mask, Vec other) {
  return _mm512_mask_loadu_ps(other, mask, from);
}
LOCKSTEP_INLINE float largest(Vec v) { return _mm512_reduce_max_ps(v); }
LOCKSTEP_INLINE float total(Vec v) { return _mm512_reduce_add_ps(v); }
/// The two halves, widened and added.
LOCKSTEP_INLINE VecF64 fold_f64(Vec v) {
  return _mm512_cvtps_pd(_mm512_castps512_ps256(v)) + _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
}
LOCKSTEP_INLINE Vec keep_lanes(Vec v, Mask mask) { return _mm512_maskz_mov_ps(mask, v); }
#else
LOCKSTEP_INLINE Vec load_or(const float* from, Mask mask, Vec other) {
  return _mm256_blendv_ps(other, load(from, mask), _mm256_castsi256_ps(mask));
}
LOCKSTEP_INLINE float largest(Vec v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}
LOCKSTEP_INLINE float total(Vec v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
/// The two halves, widened and added.
LOCKSTEP_INLINE VecF64 fold_f64(Vec v) {
  return _mm256_cvtps_pd(_mm256_castps256_ps128(v)) + _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
}
LOCKSTEP_INLINE Vec keep_lanes(Vec v, Mask mask) {
  return _mm256_and_ps(v, _mm256_castsi256_ps(mask));
}
#endif

LOCKSTEP_INLINE Vec keep_lanes(Vec v, AllLanes) { return v; }

/// Samples whose logarithms are taken together: they overlap, while a single one is all latency.
constexpr std::int64_t kChunk = 8 * kLanes;

/// Of each sample: the sum of e^(x - max), and x - max of the label and summed over the classes.
struct RowStatistics {
  float sum[kChunk], target[kChunk], all[kChunk];
};

class CrossEntropy {
 public:
  explicit CrossEntropy(const CrossEntropyArgs& a)
      : keep(1.0f - a.label_smoothing),
        smooth(a.label_smoothing / float(a.classes)),
        weight(a.sample_weight) {}

  LOCKSTEP_INLINE void add_losses(const RowStatistics& rows, std::int64_t count) {
    for_each_vec(count, [&](std::int64_t i, auto lanes) {
      Vec loss =
          log_from_one(load(rows.sum + i, lanes)) - broadcast(keep) * load(rows.target + i, lanes);
      if (smooth > 0) loss = loss - broadcast(smooth) * load(rows.all + i, lanes);
      sum_ = sum_ + fold_f64(keep_lanes(loss, lanes));
    });
  }
  /// Lanes pairwise.
  double sum() const {
    double lane[kLanesF64];
    store(lane, sum_);
    for (int half = kLanesF64 / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
    return lane[0];
  }

  const float keep, smooth, weight;

 private:
  VecF64 sum_ = zero_f64();
};

/// Few classes: samples are lanes, so that no sum crosses lanes.
template <int K>
LossSums few_classes(const CrossEntropyArgs& a) {
  CrossEntropy loss(a);
  const Vec off = broadcast(-loss.weight * loss.smooth);
  const Vec on = broadcast(-loss.weight * (loss.keep + loss.smooth));
  LossSums sums;
  RowStatistics rows;
  for (std::int64_t chunk = 0; chunk < a.samples; chunk += kChunk) {
    const std::int64_t end = at_most(chunk + kChunk, a.samples);
    for (std::int64_t n = chunk; n < end; n += kLanes) {
      const std::int64_t count = at_most(end - n, kLanes);
      const VecI label = load_i32(a.labels + n, first_lanes(count));
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
      store(rows.sum + (n - chunk), sum);
      store(rows.target + (n - chunk), target);
      store(rows.all + (n - chunk), all);
      sums.correct += count_true(winner == label, count);
      if (a.dlogits == nullptr) continue;
      const Vec factor = broadcast(loss.weight) / sum;
#pragma GCC unroll 16
      for (int k = 0; k < K; ++k) x[k] = fma(x[k], factor, label == broadcast_int(k) ? on : off);
      store_columns<K>(a.dlogits + n * K, count, x);
    }
    loss.add_losses(rows, end - chunk);
  }
  sums.loss = loss.sum();
  return sums;
}

/// Statistics of one row; writes e^(x - max) to `exponentials` unless it is null.
LOCKSTEP_INLINE bool reduce_row(const float* x,
                                float* exponentials,
                                std::int64_t classes,
                                std::int32_t label,
                                RowStatistics& rows,
                                std::int64_t index) {
  Vec tops = broadcast(-kInfinity);
  for_each_vec(classes, [&](std::int64_t i, auto lanes) {
    tops = max(load_or(x + i, lanes, broadcast(-kInfinity)), tops);
  });
  const float top = largest(tops), of_label = x[label];
  bool correct = of_label == top;
  for (std::int32_t k = 0; correct && k < label; ++k) correct = x[k] != top;
  Vec sum = zero(), all = zero();
  for_each_vec(classes, [&](std::int64_t i, auto lanes) {
    const Vec below = load_or(x + i, lanes, broadcast(-kInfinity)) - broadcast(top);
    all = all + (load_or(x + i, lanes, broadcast(top)) - broadcast(top));
    const Vec e = exp_nonpositive(below);
    sum = sum + e;
    if (exponentials != nullptr) store(exponentials + i, e, lanes);
  });
  rows.sum[index] = total(sum);
  rows.target[index] = of_label - top;
  rows.all[index] = total(all);
  return correct;
}

LossSums many_classes(const CrossEntropyArgs& a) {
  CrossEntropy loss(a);
  const float off = -loss.weight * loss.smooth, on = -loss.weight * loss.keep;
  LossSums sums;
  RowStatistics rows;
  for (std::int64_t chunk = 0; chunk < a.samples; chunk += kChunk) {
    const std::int64_t end = at_most(chunk + kChunk, a.samples);
    for (std::int64_t n = chunk; n < end; ++n) {
      float* const d = a.dlogits == nullptr ? nullptr : a.dlogits + n * a.classes;
      sums.correct +=
          reduce_row(a.logits + n * a.classes, d, a.classes, a.labels[n], rows, n - chunk);
      if (d == nullptr) continue;
      const Vec factor = broadcast(loss.weight / rows.sum[n - chunk]);
      for_each_vec(a.classes, [&](std::int64_t i, auto lanes) {
        store(d + i, fma(load(d + i, lanes), factor, broadcast(off)), lanes);
      });
      d[a.labels[n]] += on;
    }
    loss.add_losses(rows, end - chunk);
  }
  sums.loss = loss.sum();
  return sums;
}

}  // namespace

LossSums cross_entropy(const CrossEntropyArgs& args) {
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
    default: return many_classes(args);
  }
  // clang-format on
}

double squared_error(const SquaredErrorArgs& a) {
  double sum = 0;
  if (a.features < kLanes / 2) {
    for (std::int64_t i = 0; i < a.samples * a.features; ++i) {
      const double d = double(a.x[i] - a.target[i]);
      sum += d * d;
    }
  } else {
    for (std::int64_t n = 0; n < a.samples; ++n) {
      Vec squares = zero();
      for_each_vec(a.features, [&](std::int64_t i, auto lanes) {
        const std::int64_t at = n * a.features + i;
        const Vec d = load(a.x + at, lanes) - load(a.target + at, lanes);
        squares = fma(d, d, squares);
      });
      sum += double(total(squares));
    }
  }
  if (a.dx == nullptr) return sum;
  const Vec factor = broadcast(a.dx_factor);
  for_each_vec(a.samples * a.features, [=](std::int64_t i, auto lanes) {
    store(a.dx + i, factor * (load(a.x + i, lanes) - load(a.target + i, lanes)), lanes);
  });
  return sum;
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

}  // namespace lockstep::cpu::LOCKSTEP_ISA
