// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/batch_norm/batch_norm_tiles.cuh"

/// What forward left for both parts of backward.
namespace lockstep::cuda {

/// Of this thread's channels of a group: [2 or 4, channels] in memory.
template <int width>
struct Saved {
  __device__ Saved(const float* saved, std::int64_t channels, bool has_affine, float largest_open)
      : mean(load_chunk<width>(saved)), relu(has_affine), largest(largest_open) {
    if (!relu) return;
    scale = load_chunk<width>(saved + 2 * channels);
    shift = load_chunk<width>(saved + 3 * channels);
  }
  /// dy where the forward operator's x scale + shift, rounded as there, is above 0 and not above
  /// `largest`.
  __device__ float masked(int i, float x, float dy) const {
    if (!relu) return dy;
    const float y = fmaf(x, scale.values[i], shift.values[i]);
    return y > 0.0f && y <= largest ? dy : 0.0f;
  }
  Chunk<float, width> mean, scale = {}, shift = {};
  bool relu;
  float largest;
};

}  // namespace lockstep::cuda
