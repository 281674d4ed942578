// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"

/// Loops of the pooling operators over [N, H, W, C], channels being the vector dimension.
namespace lockstep::cpu {

/// Extents of one pooling operator: input [n, h, w, c], output [n, p, q, c].
struct PoolShape {
  std::int64_t n = 0, h = 0, w = 0, c = 0, p = 0, q = 0;
  int kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, padding_h = 0, padding_w = 0;
};

LOCKSTEP_LOOP(void,
              max_pool,
              (float* y, std::uint8_t* winner, const float* x, const PoolShape& shape));
LOCKSTEP_LOOP(void,
              max_pool_bwd,
              (float* dx, const float* dy, const std::uint8_t* winner, const PoolShape& shape));
LOCKSTEP_LOOP(void, avg_pool, (float* y, const float* x, const PoolShape& shape));
LOCKSTEP_LOOP(void, avg_pool_bwd, (float* dx, const float* dy, const PoolShape& shape));
/// y[n, c] = scale * sum over `positions` of x[n, position, c], in order.
LOCKSTEP_LOOP(void,
              sum_positions,
              (float* y,
               const float* x,
               std::int64_t n,
               std::int64_t positions,
               std::int64_t c,
               float scale));
/// dx[n, position, c] = scale * dy[n, c]
LOCKSTEP_LOOP(void,
              spread_positions,
              (float* dx,
               const float* dy,
               std::int64_t n,
               std::int64_t positions,
               std::int64_t c,
               float scale));

}  // namespace lockstep::cpu
