// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/layer_norm.h"

#include "kernels/cpu/loops/simd_reduce.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

/// Rows that are worked on together: within a row each step waits for the sums of the one before.
/// A row's bits do not depend on its neighbours.
constexpr int kGroup = 4;

/// One value a row of a group.
struct RowValues {
  float of[kGroup];
};

/// The sums of rows, each over its lanes; rows that are not there count nothing.
template <int rows>
LOCKSTEP_INLINE RowValues totals(const Vec (&sums)[rows]) {
  Vec all[kGroup] = {zero(), zero(), zero(), zero()};
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) all[r] = sums[r];
  RowValues values;
  _mm_storeu_ps(values.of, total_of_four(all));
  return values;
}

/// Sums of `term(row, offset, lanes)` over each row.
template <int rows, typename Term>
LOCKSTEP_INLINE RowValues row_sums(std::int64_t width, Term term) {
  Vec sums[rows];
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) sums[r] = zero();
  for_each_vec(width, [&](std::int64_t i, auto lanes) {
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) sums[r] = sums[r] + keep_lanes(term(r, i, lanes), lanes);
  });
  return totals<rows>(sums);
}

/// Rows [row, row + rows).
template <int rows, typename T>
LOCKSTEP_INLINE void normalise(const LayerNormArgs<T>& a, std::int64_t row) {
  const std::int64_t width = a.width, at = row * width;
  const T* const h = (a.residual == nullptr ? a.x : a.sum) + at;
  RowValues mean;
  if (a.residual == nullptr) {
    mean = row_sums<rows>(
        width, [=](int r, std::int64_t i, auto lanes) { return load(h + r * width + i, lanes); });
  } else {
    const T *const x = a.x + at, *const residual = a.residual + at;
    T* const sum = a.sum + at;
    mean = row_sums<rows>(width, [=](int r, std::int64_t i, auto lanes) {
      const std::int64_t k = r * width + i;
      store(sum + k, load(x + k, lanes) + load(residual + k, lanes), lanes);
      return load(sum + k, lanes);  // as it is stored
    });
  }
  Vec centre[rows], scale[rows];
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) centre[r] = broadcast(mean.of[r] / float(width));
  const RowValues squares = row_sums<rows>(width, [&](int r, std::int64_t i, auto lanes) {
    const Vec d = load(h + r * width + i, lanes) - centre[r];
    return d * d;
  });
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
    const float rstd = 1.0f / __builtin_sqrtf(squares.of[r] / float(width) + a.eps);
    a.saved[2 * (row + r)] = mean.of[r] / float(width);
    a.saved[2 * (row + r) + 1] = rstd;
    scale[r] = broadcast(rstd);
  }
  T* const y = a.y + at;
  for_each_vec(width, [&](std::int64_t i, auto lanes) {
    const Vec gamma = load(a.gamma + i, lanes);
    const Vec beta = a.beta == nullptr ? zero() : load(a.beta + i, lanes);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      const Vec normal = (load(h + r * width + i, lanes) - centre[r]) * scale[r];
      store(y + r * width + i, fma(normal, gamma, beta), lanes);
    }
  });
}

}  // namespace

template <typename T>
void layer_norm(const LayerNormArgs<T>& a) {
  std::int64_t row = 0;
  for (; row + kGroup <= a.rows; row += kGroup) normalise<kGroup>(a, row);
  for (; row < a.rows; ++row) normalise<1>(a, row);
}

namespace {

/// Adds rows [row, row + rows) to the sums of dgamma and dbeta and writes their dh.
template <int rows, typename T>
LOCKSTEP_INLINE void rows_bwd(const LayerNormBwdArgs<T>& a,
                              std::int64_t row,
                              float* gammas,
                              float* betas) {
  const std::int64_t width = a.width, at = row * width;
  const T *const h = a.h + at, *const dy = a.dy + at;
  Vec mean[rows], rstd[rows], sums[rows], products[rows];
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
    mean[r] = broadcast(a.saved[2 * (row + r)]);
    rstd[r] = broadcast(a.saved[2 * (row + r) + 1]);
    sums[r] = products[r] = zero();
  }
  for_each_vec(width, [&](std::int64_t i, auto lanes) {
    const Vec gamma = load(a.gamma + i, lanes);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      const Vec normal = (load(h + r * width + i, lanes) - mean[r]) * rstd[r];
      const Vec g = load(dy + r * width + i, lanes) * gamma;  // zero outside the lanes
      sums[r] = sums[r] + g;
      products[r] = fma(g, normal, products[r]);
    }
  });
  const RowValues sum_g = totals<rows>(sums), sum_product = totals<rows>(products);
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
    sums[r] = broadcast(sum_g.of[r] / float(width));
    products[r] = broadcast(sum_product.of[r] / float(width));
  }
  for_each_vec(width, [&](std::int64_t i, auto lanes) {
    const Vec gamma = load(a.gamma + i, lanes);
    Vec dgamma = load(gammas + i, lanes), dbeta = load(betas + i, lanes);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      const std::int64_t k = r * width + i;
      const Vec d = load(dy + k, lanes), normal = (load(h + k, lanes) - mean[r]) * rstd[r];
      dgamma = fma(d, normal, dgamma);
      dbeta = dbeta + d;
      Vec dh = rstd[r] * (d * gamma - sums[r] - normal * products[r]);
      if (a.dh_in != nullptr) dh = dh + load(a.dh_in + at + k, lanes);
      store(a.dh + at + k, dh, lanes);
    }
    store(gammas + i, dgamma, lanes);
    store(betas + i, dbeta, lanes);
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

}  // namespace

template <typename T>
void layer_norm_bwd(const LayerNormBwdArgs<T>& a) {
  float *const gammas = a.workspace, *const betas = a.workspace + a.width;
  std::int64_t r = 0;
  do {
    clear(a.workspace, 2 * a.width);
    const std::int64_t end = at_most(r + kLayerNormBlock, a.rows);
    const bool first = r == 0;
    for (; r + kGroup <= end; r += kGroup) rows_bwd<kGroup>(a, r, gammas, betas);
    for (; r < end; ++r) rows_bwd<1>(a, r, gammas, betas);
    add_block(a.dgamma, gammas, a.width, !first || a.accumulate_gamma);
    add_block(a.dbeta, betas, a.width, !first || a.accumulate_beta);
  } while (r < a.rows);
}

LOCKSTEP_INSTANTIATE(layer_norm);
LOCKSTEP_INSTANTIATE(layer_norm_bwd);

}  // namespace lockstep::cpu::LOCKSTEP_ISA
