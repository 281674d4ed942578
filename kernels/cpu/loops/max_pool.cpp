// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/loops/pool_range.h"
#include "kernels/cpu/loops/simd_int.h"
#include "kernels/cpu/pooling/pooling.h"

namespace lockstep::cpu::LOCKSTEP_ISA {
namespace {

/// Windows of 2x2 that tile the image, perhaps without its last row and column.
bool is_two_by_two(const PoolShape& s) {
  return s.kernel_h == 2 && s.kernel_w == 2 && s.stride_h == 2 && s.stride_w == 2 &&
         s.padding_h == 0 && s.padding_w == 0;
}

/// PyTorch's rule: the first of equal values wins, and the first NaN wins over everything.
LOCKSTEP_INLINE void take_larger(Vec& best, VecI& winner, Vec v, int position) {
  const VecI larger = ~(v <= best) & (best == best);
  best = larger ? v : best;
  winner = larger ? broadcast_int(position) : winner;
}

template <typename T>
void two_by_two(T* y, std::uint8_t* winner, const T* x, const PoolShape& s) {
  for (std::int64_t row = 0; row < s.n * s.p; ++row) {
    const T* top = x + (row / s.p * s.h + 2 * (row % s.p)) * s.w * s.c;
    for (std::int64_t q = 0; q < s.q; ++q, y += s.c, winner += s.c) {
      const T* corner[4] = {top + 2 * q * s.c,
                            top + (2 * q + 1) * s.c,
                            top + (s.w + 2 * q) * s.c,
                            top + (s.w + 2 * q + 1) * s.c};
      for_each_vec(s.c, [&](std::int64_t i, auto lanes) {
        Vec best = load(corner[0] + i, lanes);
        VecI position = broadcast_int(0);
        for (int k = 1; k < 4; ++k) take_larger(best, position, load(corner[k] + i, lanes), k);
        store(y + i, best, lanes);
        store_u8(winner + i, position, lanes);
      });
    }
  }
}

template <typename T>
void two_by_two_bwd(T* dx, const T* dy, const std::uint8_t* winner, const PoolShape& s) {
  const auto clear = [](T* from, std::int64_t elems) {
    for_each_vec(elems, [=](std::int64_t i, auto lanes) { store(from + i, zero(), lanes); });
  };
  for (std::int64_t n = 0; n < s.n; ++n, dx += s.h * s.w * s.c) {
    for (std::int64_t p = 0; p < s.p; ++p) {
      T* top = dx + 2 * p * s.w * s.c;
      T* bottom = top + s.w * s.c;
      for (std::int64_t q = 0; q < s.q; ++q, dy += s.c, winner += s.c) {
        T* corner[4] = {top + 2 * q * s.c,
                        top + (2 * q + 1) * s.c,
                        bottom + 2 * q * s.c,
                        bottom + (2 * q + 1) * s.c};
        for_each_vec(s.c, [&](std::int64_t i, auto lanes) {
          const Vec d = load(dy + i, lanes);
          const VecI position = load_u8(winner + i, lanes);
          for (int k = 0; k < 4; ++k)
            store(corner[k] + i, position == broadcast_int(k) ? d : zero(), lanes);
        });
      }
      clear(top + 2 * s.q * s.c, (s.w - 2 * s.q) * s.c);
      clear(bottom + 2 * s.q * s.c, (s.w - 2 * s.q) * s.c);
    }
    clear(dx + 2 * s.p * s.w * s.c, (s.h - 2 * s.p) * s.w * s.c);
  }
}

}  // namespace

template <typename T>
void max_pool(T* y, std::uint8_t* winner, const T* x, const PoolShape& s) {
  if (is_two_by_two(s)) return two_by_two(y, winner, x, s);
  for (std::int64_t n = 0; n < s.n; ++n, x += s.h * s.w * s.c)
    for (std::int64_t p = 0; p < s.p; ++p)
      for (std::int64_t q = 0; q < s.q; ++q, y += s.c, winner += s.c) {
        const Range rows = covered(p, s.stride_h, s.padding_h, s.kernel_h, s.h);
        const Range columns = covered(q, s.stride_w, s.padding_w, s.kernel_w, s.w);
        const std::int64_t top = p * s.stride_h - s.padding_h, left = q * s.stride_w - s.padding_w;
        const int first = int((rows.begin - top) * s.kernel_w + columns.begin - left);
        for_each_vec(s.c, [&](std::int64_t i, auto lanes) {
          Vec best = load(x + (rows.begin * s.w + columns.begin) * s.c + i, lanes);
          VecI position = broadcast_int(first);
          const T* row = x + rows.begin * s.w * s.c + i;
          for (std::int64_t r = rows.begin; r < rows.end; ++r, row += s.w * s.c)
            for (std::int64_t t = columns.begin; t < columns.end; ++t)
              take_larger(best,
                          position,
                          load(row + t * s.c, lanes),
                          int((r - top) * s.kernel_w + t - left));
          store(y + i, best, lanes);
          store_u8(winner + i, position, lanes);
        });
      }
}

template <typename T>
void max_pool_bwd(T* dx, const T* dy, const std::uint8_t* winner, const PoolShape& s) {
  if (is_two_by_two(s)) return two_by_two_bwd(dx, dy, winner, s);
  for (std::int64_t n = 0; n < s.n; ++n, dy += s.p * s.q * s.c, winner += s.p * s.q * s.c)
    for (std::int64_t h = 0; h < s.h; ++h) {
      const Range rows = windows(h, s.stride_h, s.padding_h, s.kernel_h, s.p);
      for (std::int64_t w = 0; w < s.w; ++w, dx += s.c) {
        const Range columns = windows(w, s.stride_w, s.padding_w, s.kernel_w, s.q);
        for_each_vec(s.c, [&](std::int64_t i, auto lanes) {
          Vec sum = zero();
          for (std::int64_t p = rows.begin; p < rows.end; ++p)
            for (std::int64_t q = columns.begin; q < columns.end; ++q) {
              const std::int64_t at = (p * s.q + q) * s.c + i;
              const int here = int((h - p * s.stride_h + s.padding_h) * s.kernel_w +
                                   (w - q * s.stride_w + s.padding_w));
              const VecI won = load_u8(winner + at, lanes) == broadcast_int(here);
              sum = sum + (won ? load(dy + at, lanes) : zero());
            }
          store(dx + i, sum, lanes);
        });
      }
    }
}

LOCKSTEP_INSTANTIATE(max_pool);
LOCKSTEP_INSTANTIATE(max_pool_bwd);

}  // namespace lockstep::cpu::LOCKSTEP_ISA
