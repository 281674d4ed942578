// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/batch_norm/batch_norm.h"

#include <limits>

#include "kernels/cpu/loops/simd.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

template <int n>
struct Vectors {
  static constexpr int count = n;
};

/// Calls body(first column, Vectors, lanes) over tiles of four whole vectors, whose sums overlap,
/// then one by one.
template <typename Body>
LOCKSTEP_INLINE void for_each_tile(std::int64_t columns, Body body) {
  constexpr int kTile = 4;
  std::int64_t i = 0;
  for (; i + kTile * kLanes <= columns; i += kTile * kLanes) body(i, Vectors<kTile>{}, AllLanes{});
  for_each_vec(columns - i, [=](std::int64_t k, auto lanes) { body(i + k, Vectors<1>{}, lanes); });
}

}  // namespace

template <typename T>
void sum_deviations(const T* x,
                    std::int64_t rows,
                    std::int64_t columns,
                    const float* pivot,
                    float* sum,
                    float* squares) {
  for_each_tile(columns, [=](std::int64_t i, auto tile_vectors, auto lanes) {
    constexpr int vectors = decltype(tile_vectors)::count;
    Vec p[vectors], s[vectors], q[vectors];
    for (int j = 0; j < vectors; ++j) {
      p[j] = load(pivot + i + j * kLanes, lanes);
      s[j] = q[j] = zero();
    }
    for (std::int64_t row = 0; row < rows; ++row)
      for (int j = 0; j < vectors; ++j) {
        const Vec d = load(x + row * columns + i + j * kLanes, lanes) - p[j];
        s[j] = s[j] + d;
        q[j] = fma(d, d, q[j]);
      }
    for (int j = 0; j < vectors; ++j) {
      store(sum + i + j * kLanes, s[j], lanes);
      store(squares + i + j * kLanes, q[j], lanes);
    }
  });
}

void join_block(double* __restrict mean,
                double* __restrict deviations,
                float* __restrict pivot,
                const float* __restrict sum,
                const float* __restrict squares,
                std::int64_t columns,
                double before,
                double count) {
  const double inverse_count = 1.0 / count, share = count / (before + count);
  const double weight = before * share;
  for (std::int64_t i = 0; i < columns; ++i) {
    const double s = double(sum[i]), offset = s * inverse_count;
    const double delta = double(pivot[i]) + offset - mean[i];
    deviations[i] += double(squares[i]) - s * offset + delta * delta * weight;
    mean[i] += delta * share;
    pivot[i] = float(mean[i]);
  }
}

namespace {

/// `gradient(column, at, x, lanes)` is the dy of element `at` that counts.
template <typename T, typename Gradient>
LOCKSTEP_INLINE void column_products(const T* x,
                                     std::int64_t rows,
                                     std::int64_t columns,
                                     const float* mean,
                                     float* sum,
                                     float* products,
                                     Gradient gradient) {
  for_each_tile(columns, [=](std::int64_t i, auto tile_vectors, auto lanes) {
    constexpr int vectors = decltype(tile_vectors)::count;
    Vec m[vectors], s[vectors], q[vectors];
    for (int j = 0; j < vectors; ++j) {
      m[j] = load(mean + i + j * kLanes, lanes);
      s[j] = q[j] = zero();
    }
    for (std::int64_t row = 0; row < rows; ++row)
      for (int j = 0; j < vectors; ++j) {
        const std::int64_t column = i + j * kLanes, at = row * columns + column;
        const Vec v = load(x + at, lanes);
        const Vec d = gradient(column, at, v, lanes);
        s[j] = s[j] + d;
        q[j] = fma(d, v - m[j], q[j]);
      }
    for (int j = 0; j < vectors; ++j) {
      store(sum + i + j * kLanes, s[j], lanes);
      store(products + i + j * kLanes, q[j], lanes);
    }
  });
}

/// `mask(i, x, dy, lanes)` is the dy that counts in column i.
template <typename T, typename Mask>
LOCKSTEP_INLINE void masked_bwd(T* dx,
                                const T* dy,
                                const T* x,
                                std::int64_t elems,
                                const float* a,
                                const float* b,
                                const float* mean,
                                const float* c,
                                std::int64_t period,
                                Mask mask) {
  for (std::int64_t row = 0; row < elems; row += period) {
    const std::int64_t count = elems - row < period ? elems - row : period;
    for_each_vec(count, [=](std::int64_t i, auto lanes) {
      const Vec v = load(x + row + i, lanes);
      const Vec d = mask(i, v, load(dy + row + i, lanes), lanes);
      const Vec rest = fma(v - load(mean + i, lanes), load(b + i, lanes), load(c + i, lanes));
      store(dx + row + i, fma(d, load(a + i, lanes), rest), lanes);
    });
  }
}

/// dy where the forward operator's x scale + shift, rounded as there, is above 0, and with
/// `limited` not above `largest`.
template <bool limited>
struct ReluMask {
  const float* scale;
  const float* shift;
  Vec largest;
  template <typename Lanes>
  LOCKSTEP_INLINE Vec operator()(std::int64_t i, Vec x, Vec dy, Lanes lanes) const {
    const Vec v = fma(x, load(scale + i, lanes), load(shift + i, lanes));
    if constexpr (limited)
      return (v > zero()) & (v <= largest) ? dy : zero();
    else
      return v > zero() ? dy : zero();
  }
};

/// Calls loop() with the mask. Most ReLUs have no limit, and a comparison less.
template <typename Loop>
LOCKSTEP_INLINE void with_relu_mask(const float* scale,
                                    const float* shift,
                                    float largest,
                                    Loop loop) {
  if (largest == std::numeric_limits<float>::infinity())
    loop(ReluMask<false>{scale, shift, zero()});
  else
    loop(ReluMask<true>{scale, shift, broadcast(largest)});
}

struct NoMask {
  template <typename Lanes>
  LOCKSTEP_INLINE Vec operator()(std::int64_t, Vec, Vec dy, Lanes) const {
    return dy;
  }
};

template <typename T, typename Mask>
struct MaskedGradient {
  const T* dy;
  Mask mask;
  template <typename Lanes>
  LOCKSTEP_INLINE Vec operator()(std::int64_t column, std::int64_t at, Vec x, Lanes lanes) const {
    return mask(column, x, load(dy + at, lanes), lanes);
  }
};

/// What a value is after it was stored as T.
template <typename T>
LOCKSTEP_INLINE Vec as_stored(Vec v) {
  if constexpr (sizeof(T) == sizeof(float))
    return v;
  else
    return widened(rounded_to_bf16(v));
}

template <typename T, bool two_uses>
struct ResidualGradient {
  const T *dy, *other, *y;
  T* dz;
  template <typename Lanes>
  LOCKSTEP_INLINE Vec operator()(std::int64_t, std::int64_t at, Vec, Lanes lanes) const {
    Vec d = load(dy + at, lanes);
    if constexpr (two_uses) d = d + load(other + at, lanes);
    d = load(y + at, lanes) > zero() ? d : zero();
    store(dz + at, d, lanes);
    return as_stored<T>(d);
  }
};

}  // namespace

template <typename T>
void sum_products(const T* x,
                  const T* dy,
                  std::int64_t rows,
                  std::int64_t columns,
                  const float* mean,
                  float* sum,
                  float* products) {
  column_products(x, rows, columns, mean, sum, products, MaskedGradient<T, NoMask>{dy, NoMask{}});
}

template <typename T>
void sum_products_relu(const T* x,
                       const T* dy,
                       std::int64_t rows,
                       std::int64_t columns,
                       const float* mean,
                       const float* scale,
                       const float* shift,
                       float largest,
                       float* sum,
                       float* products) {
  with_relu_mask(scale, shift, largest, [=](auto mask) {
    const MaskedGradient<T, decltype(mask)> gradient{dy, mask};
    column_products(x, rows, columns, mean, sum, products, gradient);
  });
}

template <typename T>
void sum_products_residual(const T* x,
                           const T* dy,
                           const T* other,
                           const T* y,
                           T* dz,
                           std::int64_t rows,
                           std::int64_t columns,
                           const float* mean,
                           float* sum,
                           float* products) {
  if (other != nullptr)
    column_products(
        x, rows, columns, mean, sum, products, ResidualGradient<T, true>{dy, other, y, dz});
  else
    column_products(
        x, rows, columns, mean, sum, products, ResidualGradient<T, false>{dy, other, y, dz});
}

void add_to_f64(double* __restrict total, const float* __restrict part, std::int64_t columns) {
  for (std::int64_t i = 0; i < columns; ++i) total[i] += double(part[i]);
}

template <typename T>
void batch_norm_bwd(T* dx,
                    const T* dy,
                    const T* x,
                    std::int64_t elems,
                    const float* a,
                    const float* b,
                    const float* mean,
                    const float* c,
                    std::int64_t period) {
  masked_bwd(dx, dy, x, elems, a, b, mean, c, period, NoMask{});
}

template <typename T>
void batch_norm_bwd_relu(T* dx,
                         const T* dy,
                         const T* x,
                         std::int64_t elems,
                         const float* a,
                         const float* b,
                         const float* mean,
                         const float* c,
                         const float* scale,
                         const float* shift,
                         float largest,
                         std::int64_t period) {
  with_relu_mask(scale, shift, largest, [=](auto mask) {
    masked_bwd(dx, dy, x, elems, a, b, mean, c, period, mask);
  });
}

LOCKSTEP_INSTANTIATE(sum_deviations);
LOCKSTEP_INSTANTIATE(sum_products);
LOCKSTEP_INSTANTIATE(sum_products_relu);
LOCKSTEP_INSTANTIATE(sum_products_residual);
LOCKSTEP_INSTANTIATE(batch_norm_bwd);
LOCKSTEP_INSTANTIATE(batch_norm_bwd_relu);

}  // namespace lockstep::cpu::LOCKSTEP_ISA
