// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/batch_norm/batch_norm_tiles.cuh"

/// y = f(x scale + shift + r), what training and evaluation end with. A block takes a tile of rows
/// and channels (Note [Tiles of batch norm]), a thread 16 bytes of every row_lanes-th of its rows,
/// several under way together. Bytes: x and y once, the residual once where there is one. Bound by
/// memory.
namespace lockstep::cuda {

/// Blocks of kernels that write what they read: sixteen for each multiprocessor of the largest
/// devices, so that those that come last are short.
inline constexpr std::int64_t kMapBlocks = 2112;
/// Rows of 16 bytes with 16 elements, whose loads are under way together.
template <typename T>
inline constexpr int kMapBatch = 16 / Pack<T>::kElems;

template <typename T>
struct AffineArgs {
  const T* x = nullptr;
  const T* residual = nullptr;    // null: none
  T* y = nullptr;                 // may be x
  const float* affine = nullptr;  // [groups, 2, channels]: scale, shift
  bool relu = false;
  float limit = ops::kNoLimit;  // of ReLU
};

template <typename T, int width>
__global__ void __launch_bounds__(kBlock, 3) affine_kernel(AffineArgs<T> a, BatchNormTiles tiles) {
  wait_for_earlier_work();
  const TilePlace place(tiles);
  if (place.first_row >= place.end_row) return;
  const float* const affine = a.affine + place.group * 2 * tiles.channels + place.channel;
  const Chunk<float, width> scale = load_chunk<width>(affine);
  const Chunk<float, width> shift = load_chunk<width>(affine + tiles.channels);
  const std::int64_t step = place.row_lanes;
  for (std::int64_t row = place.first_row; row < place.end_row; row += kMapBatch<T> * step) {
    Chunk<T, width> x[kMapBatch<T>], r[kMapBatch<T>];
#pragma unroll
    for (int k = 0; k < kMapBatch<T>; ++k) {
      const std::int64_t at = (row + k * step) * tiles.channels + place.channel;
      if (row + k * step >= place.end_row) continue;
      x[k] = load_chunk<width>(a.x + at);
      if (a.residual != nullptr) r[k] = load_chunk<width>(a.residual + at);
    }
#pragma unroll
    for (int k = 0; k < kMapBatch<T>; ++k) {
      if (row + k * step >= place.end_row) continue;
      for (int i = 0; i < width; ++i) {
        float y = fmaf(to_float(x[k].values[i]), scale.values[i], shift.values[i]);
        if (a.residual != nullptr) y += to_float(r[k].values[i]);
        if (a.relu && 0.0f > y) y = 0.0f;  // NaN stays
        if (a.relu && y > a.limit) y = a.limit;
        x[k].values[i] = from_float<T>(y);
      }
      store_chunk(a.y + (row + k * step) * tiles.channels + place.channel, x[k]);
    }
  }
}

template <typename T>
void start_affine(const char* what,
                  const AffineArgs<T>& args,
                  const BatchNormTiles& tiles,
                  cudaStream_t stream) {
  with_width<Pack<T>::kElems>(tiles.width, [&](auto width) {
    launch(what, tiles.shape(), stream, affine_kernel<T, width>, args, tiles);
  });
}

}  // namespace lockstep::cuda
