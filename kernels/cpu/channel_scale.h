// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/isa.h"

namespace lockstep::cpu {

/// Rows whose products are one fp32 chain; the sums of blocks are added in fp64.
inline constexpr std::int64_t kScaleBlock = 128;

/// y[r, c] = gamma[c] x[r, c]
LOCKSTEP_STORED_LOOP(
    void,
    channel_scale,
    (T * y, const T* x, const float* gamma, std::int64_t rows, std::int64_t columns));
/// dx[r, c] = gamma[c] dy[r, c], total[c] = sum over r of dy[r, c] x[r, c]. dx may be dy.
LOCKSTEP_STORED_LOOP(void,
                     channel_scale_bwd,
                     (T * dx,
                      double* total,
                      const T* dy,
                      const T* x,
                      const float* gamma,
                      std::int64_t rows,
                      std::int64_t columns));

}  // namespace lockstep::cpu
