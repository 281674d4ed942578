// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <utility>

#include "kernels/cuda/device/cuda_check.h"
#include "kernels/cuda/device/dependent_launch.h"

// Note [How own kernels are written]
//
// The same .cu files are compiled by nvcc for the device and by the C++ compiler against an
// emulator of blocks and threads (tests/support/cuda_emulator), which finds reads and writes out of
// bounds, missing and divergent barriers, unaligned vectors and races where no device is at hand.
// So that both can read them,
//   - every kernel starts through launch(), never through <<<>>>,
//   - every kernel begins with wait_for_earlier_work(): Note [Dependent launches],
//   - shared memory is dynamic: its bytes are in the LaunchShape, dynamic_shared() finds it,
//   - every thread of a block reaches every barrier and every shuffle: no early return before one,
//     unless the whole block returns,
//   - tensor-core instructions and PTX stay in files of their own that have a plain twin,
//   - nothing depends on the order in which blocks run: no atomics on floating point.
// Indices into tensors are 64 bits wide; where a kernel has 32, its factory refuses larger ones.
namespace lockstep::cuda {

/// Threads that work in step on a device, and 16 bytes: the widest access.
inline constexpr int kWarp = 32;
inline constexpr int kPackBytes = 16;
/// Threads of a block where nothing speaks for another number.
inline constexpr int kBlock = 256;

struct LaunchShape {
  dim3 grid{1};
  dim3 block{kBlock};
  std::size_t shared_bytes = 0;  ///< of a block; at most 48 KiB
};

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Blocks of kBlock threads, one thread for each of `items`; no more blocks than `most`: a kernel
/// that may meet more items walks on by gridDim.x * blockDim.x.
inline LaunchShape cover(std::int64_t items, std::int64_t most = 65535 * 16) {
  const std::int64_t blocks = ceil_div(items, kBlock);
  return {.grid = dim3(unsigned(blocks < most ? blocks : most)), .block = dim3(kBlock)};
}

/// The first statement of every kernel, by every thread. Nothing before it may touch memory:
/// earlier kernels of the stream may still write what this one reads, and read what it writes.
__device__ inline void wait_for_earlier_work() {
#if !defined(__CUDACC__) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900)
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// Enqueues `kernel` on `stream`; nothing where the grid is empty. Arguments are converted to the
/// kernel's parameters. Throws what check() throws, with `what` (a literal, the kernel's name).
template <typename... Parameters, typename... Arguments>
void launch(const char* what,
            const LaunchShape& shape,
            cudaStream_t stream,
            void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute dependent{};
  dependent.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  dependent.val.programmaticStreamSerializationAllowed = 1;
  if (dependent_launches() && may_launch_dependent(stream)) {
    config.attrs = &dependent;
    config.numAttrs = 1;
  }
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), what);
}

extern __shared__ __align__(16) unsigned char lockstep_dynamic_shared[];

/// This block's shared memory from byte `offset` on; NaN in the emulator until a thread writes it.
template <typename T>
__device__ inline T* dynamic_shared(std::size_t offset = 0) {
  return reinterpret_cast<T*>(lockstep_dynamic_shared + offset);
}

/// This thread's number in the whole grid, and the threads of the grid (one extent).
__device__ inline std::int64_t global_thread() {
  return std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t all_threads() { return std::int64_t(gridDim.x) * blockDim.x; }

}  // namespace lockstep::cuda
