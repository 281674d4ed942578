// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "kernels/cuda/step/staged.cuh"

/// Elementwise functions of so few fp32 elements that one block does them.
namespace lockstep::cuda {

/// At most eight elements a thread of a block of 512, one after the other, since an output may be
/// an input: some 2,000 cycles, less than a launch.
inline constexpr std::int64_t kMaxSmallElems = 4096;

struct SmallElementwise {
  float* y;        ///< may be an input
  const float* a;  ///< the function's inputs, of which the second may be null
  const float* b;
  std::int32_t elems;
  std::int32_t columns;       ///< of the staged matrices, whose rows follow each other in memory
  StagedAt y_at, a_at, b_at;  ///< or nowhere
  Inverse by_columns;
};

/// As map(), by one block, element by element.
template <typename Function>
__device__ inline void map_step(Function function, const SmallElementwise& s, float* shared) {
  for (int e = int(threadIdx.x); e < s.elems; e += int(blockDim.x)) {
    const int row = quotient(e, s.by_columns);
    const int place = row * staged_pitch(s.columns) + e - row * s.columns;
    const auto input = [&](const float* values, StagedAt at) {
      return is_staged(at) ? shared[at + place] : values[e];
    };
    float y;
    if constexpr (std::is_invocable_v<Function, float>)
      y = function(input(s.a, s.a_at));
    else
      y = function(input(s.a, s.a_at), input(s.b, s.b_at));
    s.y[e] = y;
    if (is_staged(s.y_at)) shared[s.y_at + place] = y;
  }
}

}  // namespace lockstep::cuda
