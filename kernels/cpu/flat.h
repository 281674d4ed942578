// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"

/// Loops over flat arrays that Backend's functions of the same names are made of. Each element's
/// bits depend on its own values alone; pointers may be unaligned.
namespace lockstep::cpu {

/// Constants of one range of one SGD step; the formula is SgdUpdate's.
struct SgdFactors {
  float grad_scale, weight_decay, momentum, lr;  ///< lr: with the range's scale in it
  bool nesterov, first;
};

/// Constants of one range of one AdamW step; the formula is AdamwUpdate's.
struct AdamwFactors {
  float grad_scale;
  float keep;  ///< 1 - lr * weight_decay
  float beta1, beta2;
  float step_size;                ///< lr / (1 - beta1^t)
  float inverse_root_correction;  ///< 1 / sqrt(1 - beta2^t)
  float eps;
};

/// `momentum` may be null: plain gradient descent.
LOCKSTEP_LOOP(void,
              sgd_range,
              (float* params,
               const float* grads,
               float* momentum,
               std::int64_t elems,
               const SgdFactors& factors));
LOCKSTEP_LOOP(void,
              adamw_range,
              (float* params,
               const float* grads,
               float* first_moment,
               float* second_moment,
               std::int64_t elems,
               const AdamwFactors& factors));
/// The sum of squares in fp64: 16 lanes inside a block of `block` elements, added pairwise, block
/// sums added in order. Both instruction sets give the same bits.
LOCKSTEP_LOOP(double, squared_norm, (const float* values, std::int64_t elems, std::int64_t block));
/// Sum of replica_hash_mix() (core/exec/replica_hash.h); values[0] lies at `offset`.
LOCKSTEP_LOOP(std::uint64_t, hash, (const float* values, std::int64_t offset, std::int64_t elems));
/// value += momentum * (sum - weight * value)
LOCKSTEP_LOOP(void,
              update_statistic,
              (float* value, const float* sum, float weight, float momentum, std::int64_t elems));

}  // namespace lockstep::cpu
