// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/isa.h"

/// Note [Sums over the samples of a batch-norm group]
///
/// A group is `rows` rows of `channels` contiguous values. `fold` rows are read as one row of
/// fold * channels columns, so that few channels fill vectors too; a column is then a part of its
/// channel. Columns are summed in fp32 over blocks of kSumBlock rows, and blocks in fp64.
///
/// Moments: each block sums deviations from a pivot, the mean of the rows before it (for the first
/// block, its own), and joins by Chan's formula (Chan, Golub and LeVeque 1979, eq. 2.1). Since the
/// squared distance between a block's mean and the earlier mean is itself part of the variance, the
/// fp32 sums never exceed three times what they contribute, whatever the mean: the relative error
/// of the sum of squared deviations is at most 3 (kSumBlock + 4) 2^-24, that of the mean (kSumBlock
/// + 2) 2^-24 standard deviations in addition to the rounding of the result.
namespace lockstep::cpu {

inline constexpr std::int64_t kSumBlock = 128;

/// sum = sum over rows of x - pivot; squares = sum of (x - pivot)^2. All but x: [columns].
LOCKSTEP_STORED_LOOP(void,
                     sum_deviations,
                     (const T* x,
                      std::int64_t rows,
                      std::int64_t columns,
                      const float* pivot,
                      float* sum,
                      float* squares));
/// Joins a block of `count` rows to `mean` and `deviations` of the `before` rows seen so far, and
/// makes the new mean the pivot.
LOCKSTEP_LOOP(void,
              join_block,
              (double* mean,
               double* deviations,
               float* pivot,
               const float* sum,
               const float* squares,
               std::int64_t columns,
               double before,
               double count));
/// sum = sum over rows of dy; products = sum of dy * (x - mean). The others: [columns].
LOCKSTEP_STORED_LOOP(void,
                     sum_products,
                     (const T* x,
                      const T* dy,
                      std::int64_t rows,
                      std::int64_t columns,
                      const float* mean,
                      float* sum,
                      float* products));
/// The same where 0 < x scale + shift <= largest; elsewhere dy counts as 0.
LOCKSTEP_STORED_LOOP(void,
                     sum_products_relu,
                     (const T* x,
                      const T* dy,
                      std::int64_t rows,
                      std::int64_t columns,
                      const float* mean,
                      const float* scale,
                      const float* shift,
                      float largest,
                      float* sum,
                      float* products));
/// The same with dz = y > 0 ? dy + other : 0, which is also stored, in place of dy: the sum rounded
/// to T, `other` null for none. dz may be dy or other.
LOCKSTEP_STORED_LOOP(void,
                     sum_products_residual,
                     (const T* x,
                      const T* dy,
                      const T* other,
                      const T* y,
                      T* dz,
                      std::int64_t rows,
                      std::int64_t columns,
                      const float* mean,
                      float* sum,
                      float* products));
/// total += part
LOCKSTEP_LOOP(void, add_to_f64, (double* total, const float* part, std::int64_t columns));
/// dx = a * dy + (b * (x - mean) + c), per column of a pattern of `period` columns.
LOCKSTEP_STORED_LOOP(void,
                     batch_norm_bwd,
                     (T * dx,
                      const T* dy,
                      const T* x,
                      std::int64_t elems,
                      const float* a,
                      const float* b,
                      const float* mean,
                      const float* c,
                      std::int64_t period));
/// The same with dy counting as 0 where not 0 < x scale + shift <= largest.
LOCKSTEP_STORED_LOOP(void,
                     batch_norm_bwd_relu,
                     (T * dx,
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
                      std::int64_t period));

}  // namespace lockstep::cpu
