// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cuda_bf16.h>
#include <utility>
#include <vector>

#include "kernels/cuda/device/cuda_check.h"
#include "lockstep/error.h"
#include "lockstep/shape.h"
#include "tests/support/cuda_emulator/stream_queue.h"

/// Tensors of the emulated device as its libraries' twins read and write them.
namespace lockstep::cuda {

inline std::vector<float> widened(const void* values, DType type, std::int64_t elems) {
  std::vector<float> result(static_cast<std::size_t>(elems));
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = type == DType::bf16 ? __bfloat162float(static_cast<const __nv_bfloat16*>(values)[i])
                                    : static_cast<const float*>(values)[i];
  return result;
}

/// What a product multiplies: with `tf32` those of fp32 rounded to ten bits of mantissa.
inline std::vector<float> factors(const void* values, DType type, std::int64_t elems, bool tf32) {
  std::vector<float> result = widened(values, type, elems);
  if (tf32 && type == DType::f32)
    for (float& value : result)
      if (std::isfinite(value))
        value = std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x1000) & ~0x1fffu);
  return result;
}

/// Rounds to nearest even.
inline void store(float value, void* values, DType type, std::int64_t i) {
  if (type == DType::bf16)
    static_cast<__nv_bfloat16*>(values)[i] = __float2bfloat16_rn(value);
  else
    static_cast<float*>(values)[i] = value;
}

/// What the twins want of workspace: enough to see that nobody else keeps something there.
inline constexpr std::size_t kEmulatedWorkspace = 100;
inline void use_workspace(void* workspace) { std::memset(workspace, 0xff, kEmulatedWorkspace); }

/// Asks `stream` for what a library's twin does.
template <typename Call>
void enqueue_library_call(cudaStream_t stream, Call call) {
  check(emulator::enqueue(stream,
                          {.run = std::move(call), .counted = &emulator::Calls::kernel_launches}),
        "library");
}

}  // namespace lockstep::cuda
