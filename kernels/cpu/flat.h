// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/isa.h"

/// Loops over flat arrays that Backend's functions of the same names are made of. Each element's
/// bits depend on its own values alone; pointers may be unaligned.
namespace lockstep::cpu {

/// The sum of squares in fp64: 16 lanes inside a block of `block` elements, added pairwise, block
/// sums added in order. Both instruction sets give the same bits.
LOCKSTEP_LOOP(double, squared_norm, (const float* values, std::int64_t elems, std::int64_t block));
/// Sum of replica_hash_mix() (core/exec/replica_hash.h); values[0] lies at `offset`.
LOCKSTEP_LOOP(std::uint64_t, hash, (const float* values, std::int64_t offset, std::int64_t elems));
/// value += momentum * (sum - weight * value)
LOCKSTEP_LOOP(void,
              update_statistic,
              (float* value, const float* sum, float weight, float momentum, std::int64_t elems));

/// Each value to [-limit, limit]; NaN stays.
LOCKSTEP_LOOP(void, clip_values, (float* values, float limit, std::int64_t elems));

/// y = x rounded to nearest even; with `flushes` subnormal numbers become 0, as in the processor's
/// own instruction (VCVTNEPS2BF16), by which the matrix library rounds weights where there is one.
LOCKSTEP_LOOP(void, round_weights, (Bf16 * y, const float* x, std::int64_t elems, bool flushes));

}  // namespace lockstep::cpu
