// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/check.h"
#include "core/exec/kernel.h"

namespace lockstep::cuda {

/// Where the parts of a workspace begin, each at a multiple of 256 bytes as libraries like it.
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

/// Throws InternalError: a library's workspace is not where kernels are promised theirs.
inline void check_workspace(const void* workspace, std::size_t bytes) {
  LOCKSTEP_ASSERT(bytes == 0 || workspace != nullptr);
  LOCKSTEP_ASSERT(reinterpret_cast<std::uintptr_t>(workspace) % kWorkspaceAlignment == 0);
}

/// The bf16 copy of the fp32 parameter `input`, in its own layout: one for all kernels that read
/// the parameter. `rows`: how many it has, where zeros are to follow the parameter's.
inline PackedCopy bf16_copy(int input, const TensorType& parameter, std::int64_t rows = 0) {
  const std::size_t bytes = std::size_t(parameter.elems()) * size_in_bytes(DType::bf16);
  if (rows == 0 || rows == parameter.shape[0]) return {input, kRoundedFormat, bytes};
  return {input, "bf16 padded", bytes / std::size_t(parameter.shape[0]) * std::size_t(rows)};
}

/// Whether output `i` adds to what is there in a run with `state`.
inline bool accumulates(const std::vector<bool>& output_accumulates,
                        std::size_t i,
                        const RunState& state) {
  return state.accumulate && i < output_accumulates.size() && output_accumulates[i];
}

}  // namespace lockstep::cuda
