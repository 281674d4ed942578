// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/launch.cuh"

/// Elementwise functions of so few fp32 elements that one block does them.
namespace lockstep::cuda {

/// At most four elements a thread of a block of 1,024, one after the other, since an output may be
/// an input: some 2,000 cycles, less than a launch.
inline constexpr std::int64_t kMaxSmallElems = 4096;

struct SmallElementwise {
  float* y;        ///< may be an input
  const float* a;  ///< the function's inputs, of which the second may be null
  const float* b;
  std::int32_t elems;
};

/// As map(), by one block, element by element.
template <typename Function, typename... Inputs>
__device__ inline void map_step(Function function,
                                float* y,
                                std::int32_t elems,
                                const Inputs*... inputs) {
  for (int i = int(threadIdx.x); i < elems; i += int(blockDim.x)) y[i] = function(inputs[i]...);
}

}  // namespace lockstep::cuda
