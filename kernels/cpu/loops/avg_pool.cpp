// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/loops/pool_range.h"
#include "kernels/cpu/pooling/pooling.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

/// to[c] = scale * the sum of from[(row * width + column) * c] over both ranges, in order.
template <typename T>
LOCKSTEP_INLINE void sum_block(T* to,
                               const T* from,
                               std::int64_t width,
                               std::int64_t c,
                               Range rows,
                               Range columns,
                               float scale) {
  for_each_vec(c, [&](std::int64_t i, auto lanes) {
    Vec sum = zero();
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      for (std::int64_t column = columns.begin; column < columns.end; ++column)
        sum = sum + load(from + (row * width + column) * c + i, lanes);
    store(to + i, sum * broadcast(scale), lanes);
  });
}

}  // namespace

template <typename T>
void avg_pool(T* y, const T* x, const PoolShape& s) {
  const float scale = 1.0f / float(s.kernel_h * s.kernel_w);
  for (std::int64_t n = 0; n < s.n; ++n, x += s.h * s.w * s.c)
    for (std::int64_t p = 0; p < s.p; ++p) {
      const Range rows = covered(p, s.stride_h, s.padding_h, s.kernel_h, s.h);
      for (std::int64_t q = 0; q < s.q; ++q, y += s.c)
        sum_block(
            y, x, s.w, s.c, rows, covered(q, s.stride_w, s.padding_w, s.kernel_w, s.w), scale);
    }
}

template <typename T>
void avg_pool_bwd(T* dx, const T* dy, const PoolShape& s) {
  const float scale = 1.0f / float(s.kernel_h * s.kernel_w);
  for (std::int64_t n = 0; n < s.n; ++n, dy += s.p * s.q * s.c)
    for (std::int64_t h = 0; h < s.h; ++h) {
      const Range rows = windows(h, s.stride_h, s.padding_h, s.kernel_h, s.p);
      for (std::int64_t w = 0; w < s.w; ++w, dx += s.c)
        sum_block(
            dx, dy, s.q, s.c, rows, windows(w, s.stride_w, s.padding_w, s.kernel_w, s.q), scale);
    }
}

template <typename T>
void sum_positions(
    T* y, const T* x, std::int64_t n, std::int64_t positions, std::int64_t c, float scale) {
  constexpr int kTile = 4;  // independent sums, so that additions overlap
  for (std::int64_t sample = 0; sample < n; ++sample, x += positions * c, y += c) {
    std::int64_t i = 0;
    for (; i + kTile * kLanes <= c; i += kTile * kLanes) {
      Vec sum[kTile] = {zero(), zero(), zero(), zero()};
      for (std::int64_t at = 0; at < positions; ++at)
        for (int j = 0; j < kTile; ++j) sum[j] = sum[j] + load(x + at * c + i + j * kLanes);
      for (int j = 0; j < kTile; ++j) store(y + i + j * kLanes, sum[j] * broadcast(scale));
    }
    for_each_vec(c - i, [&](std::int64_t k, auto lanes) {
      Vec sum = zero();
      for (std::int64_t at = 0; at < positions; ++at) sum = sum + load(x + at * c + i + k, lanes);
      store(y + i + k, sum * broadcast(scale), lanes);
    });
  }
}

template <typename T>
void spread_positions(
    T* dx, const T* dy, std::int64_t n, std::int64_t positions, std::int64_t c, float scale) {
  for (std::int64_t sample = 0; sample < n; ++sample, dy += c)
    for (std::int64_t at = 0; at < positions; ++at, dx += c)
      for_each_vec(c, [&](std::int64_t i, auto lanes) {
        store(dx + i, load(dy + i, lanes) * broadcast(scale), lanes);
      });
}

LOCKSTEP_INSTANTIATE(avg_pool);
LOCKSTEP_INSTANTIATE(avg_pool_bwd);
LOCKSTEP_INSTANTIATE(sum_positions);
LOCKSTEP_INSTANTIATE(spread_positions);

}  // namespace lockstep::cpu::LOCKSTEP_ISA
