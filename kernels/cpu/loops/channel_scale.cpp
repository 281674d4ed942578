// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/channel_scale.h"

#include "kernels/cpu/loops/simd.h"

namespace lockstep::cpu::LOCKSTEP_ISA {

template <typename T>
void channel_scale(T* y, const T* x, const float* gamma, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r, y += columns, x += columns)
    for_each_vec(columns, [=](std::int64_t c, auto lanes) {
      store(y + c, load(gamma + c, lanes) * load(x + c, lanes), lanes);
    });
}

template <typename T>
void channel_scale_bwd(T* dx,
                       double* total,
                       const T* dy,
                       const T* x,
                       const float* gamma,
                       std::int64_t rows,
                       std::int64_t columns) {
  for (std::int64_t c = 0; c < columns; ++c) total[c] = 0;
  for (std::int64_t first = 0; first < rows; first += kScaleBlock) {
    const std::int64_t block = at_most(kScaleBlock, rows - first), start = first * columns;
    for_each_vec(columns, [=](std::int64_t c, auto lanes) {
      const Vec factor = load(gamma + c, lanes);
      Vec sum = zero();
      for (std::int64_t r = 0; r < block; ++r) {
        const std::int64_t at = start + r * columns + c;
        const Vec d = load(dy + at, lanes);
        sum = fma(d, load(x + at, lanes), sum);
        store(dx + at, factor * d, lanes);
      }
      float parts[kLanes];
      store(parts, sum);
      const std::int64_t count = at_most(kLanes, columns - c);
      for (std::int64_t i = 0; i < count; ++i) total[c + i] += double(parts[i]);
    });
  }
}

LOCKSTEP_INSTANTIATE(channel_scale);
LOCKSTEP_INSTANTIATE(channel_scale_bwd);

}  // namespace lockstep::cpu::LOCKSTEP_ISA
