// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/chunk.cuh"

/// Rows whose columns are spread over `threads` neighbouring threads, `width` columns at a time.
namespace lockstep::cuda {

/// Calls body(step, column) for the chunks of this thread, of which there are at most `steps`, so
/// that body may keep something of each step in registers; any number where `steps` is 0.
template <int steps, int width, typename Body>
__device__ inline void for_columns(int lane, int threads, std::int64_t columns, Body body) {
  if constexpr (steps > 0) {
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      const std::int64_t column = (std::int64_t(step) * threads + lane) * width;
      if (column < columns) body(step, column);
    }
  } else {
    const std::int64_t stride = std::int64_t(threads) * width;
    for (std::int64_t column = std::int64_t(lane) * width; column < columns; column += stride)
      body(0, column);
  }
}

/// One row's chunks of this thread: in registers, or where `steps` is 0 read again each time.
template <typename T, int steps, int width>
class HeldRow {
 public:
  __device__ explicit HeldRow(const T* row) : row_(row) {}
  __device__ void hold(int step, const Chunk<T, width>& chunk) {
    if constexpr (steps > 0) chunks_[step] = chunk;
  }
  __device__ void hold(int step, std::int64_t column) {
    if constexpr (steps > 0) chunks_[step] = load_chunk<width>(row_ + column);
  }
  __device__ Chunk<T, width> get(int step, std::int64_t column) const {
    if constexpr (steps > 0)
      return chunks_[step];
    else
      return load_chunk<width>(row_ + column);
  }

 private:
  const T* row_;
  Chunk<T, width> chunks_[steps > 0 ? steps : 1];
};

}  // namespace lockstep::cuda
