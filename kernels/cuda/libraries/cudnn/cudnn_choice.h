// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/cuda/libraries/cudnn/cudnn_library.h"

namespace lockstep::cuda {

/// What a plan of cuDNN's is built of, given the operations: an engine, its knobs, which decide
/// tiles and how sums are split, and the workspace that comes of them.
struct CudnnChoice {
  std::int64_t engine = 0;                                   ///< CUDNN_ATTR_ENGINE_GLOBAL_INDEX
  std::vector<std::pair<std::int64_t, std::int64_t>> knobs;  ///< type and value
  std::int64_t workspace_bytes = 0;
};

/// For an AlgorithmCache: "engine 38 workspace 4096 knobs 2=1 12=3".
std::string to_text(const CudnnChoice& choice);
/// Throws InternalError: `text` is not of to_text().
CudnnChoice cudnn_choice(std::string_view text);

/// Whether an engine that cuDNN notes this of keeps what convolution.h promises: the same bits in
/// every run, fp32 sums, no transforms (Winograd, FFT), and factors as they are. `rounded_factors`:
/// tensor cores may take them, which round fp32 to tf32. That is stricter than PyTorch, which
/// refuses DOWN_CONVERT_INPUTS always and TENSOR_CORE for fp32 without tf32, and NONDETERMINISTIC
/// only where asked to. Notes that are not known here are refused.
bool is_acceptable(std::span<const cudnnBackendNumericalNote_t> notes, bool rounded_factors);

}  // namespace lockstep::cuda
