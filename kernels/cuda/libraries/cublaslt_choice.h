// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cublasLt.h>
#include <string>
#include <string_view>

namespace lockstep::cuda {

/// An algorithm of cuBLASLt with the workspace it wants.
struct CublasLtChoice {
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace_bytes = 0;
};

/// For an AlgorithmCache: "workspace 4194304 algorithm 0f00...", its bytes in hexadecimal.
std::string to_text(const CublasLtChoice& choice);
/// Throws InternalError: `text` is not of to_text().
CublasLtChoice cublaslt_choice(std::string_view text);

}  // namespace lockstep::cuda
