// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/isa.h"

/// Loops of the pooling operators over [N, H, W, C], channels being the vector dimension.
namespace lockstep::cpu {

/// Extents of one pooling operator: input [n, h, w, c], output [n, p, q, c].
struct PoolShape {
  std::int64_t n = 0, h = 0, w = 0, c = 0, p = 0, q = 0;
  int kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, padding_h = 0, padding_w = 0;
};

LOCKSTEP_STORED_LOOP(void,
                     max_pool,
                     (T * y, std::uint8_t* winner, const T* x, const PoolShape& shape));
LOCKSTEP_STORED_LOOP(void,
                     max_pool_bwd,
                     (T * dx, const T* dy, const std::uint8_t* winner, const PoolShape& shape));
LOCKSTEP_STORED_LOOP(void, avg_pool, (T * y, const T* x, const PoolShape& shape));
LOCKSTEP_STORED_LOOP(void, avg_pool_bwd, (T * dx, const T* dy, const PoolShape& shape));
/// y[n, c] = scale * sum over `positions` of x[n, position, c], in order.
LOCKSTEP_STORED_LOOP(
    void,
    sum_positions,
    (T * y, const T* x, std::int64_t n, std::int64_t positions, std::int64_t c, float scale));
/// dx[n, position, c] = scale * dy[n, c]
LOCKSTEP_STORED_LOOP(
    void,
    spread_positions,
    (T * dx, const T* dy, std::int64_t n, std::int64_t positions, std::int64_t c, float scale));

}  // namespace lockstep::cpu
