// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "kernels/cuda/attention/fused_attention.h"
#include "kernels/cuda/convolution/convolution.h"
#include "kernels/cuda/linear/matrix_product.h"

namespace lockstep::cuda {

/// What an AlgorithmCache knows it by: everything that the choice of an algorithm depends on.
std::string algorithm_key(const Device& device, const MatrixProductSpec& spec);
std::string algorithm_key(const Device& device, const ConvolutionSpec& spec);
std::string algorithm_key(const Device& device, const FusedAttentionSpec& spec);

/// The error of an operator `what` that cannot run `algorithm`, which rank 0 has chosen.
[[noreturn]] void throw_cannot_follow(const std::string& what,
                                      const std::string& algorithm,
                                      const std::string& why);

}  // namespace lockstep::cuda
