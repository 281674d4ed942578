// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/layer_norm.h"

#include "kernels/cpu/loops/simd_reduce.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

struct RowMoments {
  float mean, variance;
};

/// Sums in four interleaved chains: additions wait for each other otherwise.
template <typename Term>
LOCKSTEP_INLINE float row_sum(std::int64_t width, Term term) {
  Vec sum[4] = {zero(), zero(), zero(), zero()};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= width; i += 4 * kLanes)
    for (int j = 0; j < 4; ++j) sum[j] = sum[j] + term(i + j * kLanes, AllLanes{});
  for_each_vec(width - i, [&](std::int64_t k, auto lanes) {
    sum[0] = sum[0] + keep_lanes(term(i + k, lanes), lanes);
  });
  return total((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/// Not centred: those around zero.
template <bool centered, typename T>
LOCKSTEP_INLINE RowMoments moments(const T* h, std::int64_t width) {
  float mean = 0;
  if constexpr (centered)
    mean = row_sum(width, [=](std::int64_t i, auto lanes) { return load(h + i, lanes); }) /
           float(width);
  const Vec center = broadcast(mean);
  const float squares = row_sum(width, [=](std::int64_t i, auto lanes) {
    Vec d = load(h + i, lanes);
    if constexpr (centered) d = d - center;
    return d * d;
  });
  return {mean, squares / float(width)};
}

/// xhat of a row.
template <bool centered>
LOCKSTEP_INLINE Vec normal_of(Vec h, Vec mean, Vec rstd) {
  if constexpr (centered)
    return (h - mean) * rstd;
  else
    return h * rstd;
}

template <bool centered, typename T>
LOCKSTEP_INLINE void norm_rows(const LayerNormArgs<T>& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const T* h = a.x + r * a.width;
    if (a.residual != nullptr) {
      const T* const residual = a.residual + r * a.width;
      T* const sum = a.sum + r * a.width;
      for_each_vec(a.width, [=](std::int64_t i, auto lanes) {
        store(sum + i, load(h + i, lanes) + load(residual + i, lanes), lanes);
      });
      h = sum;
    }
    const RowMoments m = moments<centered>(h, a.width);
    const float rstd = 1.0f / __builtin_sqrtf(m.variance + a.eps);
    if constexpr (centered) {
      a.saved[2 * r] = m.mean;
      a.saved[2 * r + 1] = rstd;
    } else {
      a.saved[r] = rstd;
    }
    const Vec mean = broadcast(m.mean), scale = broadcast(rstd);
    T* const y = a.y + r * a.width;
    for_each_vec(a.width, [&](std::int64_t i, auto lanes) {
      const Vec normal = normal_of<centered>(load(h + i, lanes), mean, scale);
      const Vec gamma = load(a.gamma + i, lanes);
      store(y + i,
            a.beta == nullptr ? normal * gamma : fma(normal, gamma, load(a.beta + i, lanes)),
            lanes);
    });
  }
}

/// Adds the row to the sums of dgamma and dbeta and writes dh.
template <bool centered, typename T>
LOCKSTEP_INLINE void row_bwd(const LayerNormBwdArgs<T>& a,
                             std::int64_t r,
                             float* gammas,
                             float* betas) {
  const T *const h = a.h + r * a.width, *const dy = a.dy + r * a.width;
  const Vec mean = centered ? broadcast(a.saved[2 * r]) : zero();
  const Vec rstd = broadcast(a.saved[centered ? 2 * r + 1 : r]);
  Vec sums[2] = {zero(), zero()}, products[2] = {zero(), zero()};
  for_each_vec(a.width, [&](std::int64_t i, auto lanes) {
    const Vec d = load(dy + i, lanes), normal = normal_of<centered>(load(h + i, lanes), mean, rstd);
    const Vec g = d * load(a.gamma + i, lanes);  // zero outside the lanes, as d is
    const int chain = int(i / kLanes) & 1;
    if constexpr (centered) sums[chain] = sums[chain] + g;
    products[chain] = fma(g, normal, products[chain]);
    store(gammas + i, fma(d, normal, load(gammas + i, lanes)), lanes);
    if (a.dbeta != nullptr) store(betas + i, load(betas + i, lanes) + d, lanes);
  });
  const Vec mean_g = broadcast(total(sums[0] + sums[1]) / float(a.width));
  const Vec mean_product = broadcast(total(products[0] + products[1]) / float(a.width));
  T* const dh = a.dh + r * a.width;
  for_each_vec(a.width, [&](std::int64_t i, auto lanes) {
    const Vec normal = normal_of<centered>(load(h + i, lanes), mean, rstd);
    Vec g = load(dy + i, lanes) * load(a.gamma + i, lanes);
    if constexpr (centered) g = g - mean_g;
    Vec d = rstd * (g - normal * mean_product);
    if (a.dh_in != nullptr) d = d + load(a.dh_in + r * a.width + i, lanes);
    store(dh + i, d, lanes);
  });
}

LOCKSTEP_INLINE void add_block(float* out, const float* sums, std::int64_t width, bool accumulate) {
  if (out == nullptr) return;
  for_each_vec(width, [=](std::int64_t i, auto lanes) {
    const Vec sum = load(sums + i, lanes);
    store(out + i, accumulate ? load(out + i, lanes) + sum : sum, lanes);
  });
}

LOCKSTEP_INLINE void clear(float* values, std::int64_t count) {
  for_each_vec(count, [=](std::int64_t i, auto lanes) { store(values + i, zero(), lanes); });
}

template <bool centered, typename T>
LOCKSTEP_INLINE void norm_rows_bwd(const LayerNormBwdArgs<T>& a) {
  float *const gammas = a.workspace, *const betas = a.workspace + a.width;
  std::int64_t r = 0;
  do {
    clear(a.workspace, 2 * a.width);
    const std::int64_t end = at_most(r + kLayerNormBlock, a.rows);
    const bool first = r == 0;
    for (; r < end; ++r) row_bwd<centered>(a, r, gammas, betas);
    add_block(a.dgamma, gammas, a.width, !first || a.accumulate_gamma);
    add_block(a.dbeta, betas, a.width, !first || a.accumulate_beta);
  } while (r < a.rows);
}

}  // namespace

template <typename T>
void layer_norm(const LayerNormArgs<T>& a) {
  if (a.centered)
    norm_rows<true>(a);
  else
    norm_rows<false>(a);
}

template <typename T>
void layer_norm_bwd(const LayerNormBwdArgs<T>& a) {
  if (a.centered)
    norm_rows_bwd<true>(a);
  else
    norm_rows_bwd<false>(a);
}

LOCKSTEP_INSTANTIATE(layer_norm);
LOCKSTEP_INSTANTIATE(layer_norm_bwd);

}  // namespace lockstep::cpu::LOCKSTEP_ISA
