// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/loops/pool_range.h"
#include "kernels/cpu/loops/simd_int.h"
#include "kernels/cpu/pooling.h"

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

void two_by_two(float* y, std::uint8_t* winner, const float* x, const PoolShape& s) {
  for (std::int64_t row = 0; row < s.n * s.p; ++row) {
    const float* top = x + (row / s.p * s.h + 2 * (row % s.p)) * s.w * s.c;
    for (std::int64_t q = 0; q < s.q; ++q, y += s.c, winner += s.c) {
      const float* corner[4] = {top + 2 * q * s.c,
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

void two_by_two_bwd(float* dx, const float* dy, const std::uint8_t* winner, const PoolShape& s) {
  const auto clear = [](float* from, std::int64_t elems) {
    for_each_vec(elems, [=](std::int64_t i, auto lanes) { store(from + i, zero(), lanes); });
  };
  for (std::int64_t n = 0; n < s.n; ++n, dx += s.h * s.w * s.c) {
    for (std::int64_t p = 0; p < s.p; ++p) {
      float* top = dx + 2 * p * s.w * s.c;
      float* bottom = top + s.w * s.c;
      for (std::int64_t q = 0; q < s.q; ++q, dy += s.c, winner += s.c) {
        float* corner[4] = {top + 2 * q * s.c,
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

void max_pool(float* y, std::uint8_t* winner, const float* x, const PoolShape& s) {
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
          const float* row = x + rows.begin * s.w * s.c + i;
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

void max_pool_bwd(float* dx, const float* dy, const std::uint8_t* winner, const PoolShape& s) {
  if (is_two_by_two(s)) return two_by_two_bwd(dx, dy, winner, s);
  for (std::int64_t n = 0; n < s.n; ++n, dx += s.h * s.w * s.c) {
    for_each_vec(s.h * s.w * s.c,
                 [&](std::int64_t i, auto lanes) { store(dx + i, zero(), lanes); });
    for (std::int64_t p = 0; p < s.p; ++p)
      for (std::int64_t q = 0; q < s.q; ++q, dy += s.c, winner += s.c) {
        const Range rows = covered(p, s.stride_h, s.padding_h, s.kernel_h, s.h);
        const Range columns = covered(q, s.stride_w, s.padding_w, s.kernel_w, s.w);
        const std::int64_t top = p * s.stride_h - s.padding_h, left = q * s.stride_w - s.padding_w;
        for_each_vec(s.c, [&](std::int64_t i, auto lanes) {
          const Vec d = load(dy + i, lanes);
          const VecI position = load_u8(winner + i, lanes);
          float* row = dx + rows.begin * s.w * s.c + i;
          for (std::int64_t r = rows.begin; r < rows.end; ++r, row += s.w * s.c)
            for (std::int64_t t = columns.begin; t < columns.end; ++t) {
              float* to = row + t * s.c;
              const VecI here = position == broadcast_int(int((r - top) * s.kernel_w + t - left));
              store(to, load(to, lanes) + (here ? d : zero()), lanes);
            }
        });
      }
  }
}

}  // namespace lockstep::cpu::LOCKSTEP_ISA
