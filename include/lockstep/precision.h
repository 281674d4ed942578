// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

/// The element type that a model computes in. Weights, optimizer state, statistics and sums over
/// samples are fp32 in all of them.
enum class Precision : std::uint8_t {
  fp32,
  tf32,  ///< matmuls and convolutions round their inputs to 10 bits of mantissa; on NVIDIA GPUs
  bf16   ///< activations and their gradients, and the copies of weights that matmuls read
};

/// "fp32", "tf32" or "bf16".
std::string_view name_of(Precision precision);

/// Which activations training computes again in backward instead of keeping them: less memory for
/// more time, with the same bits.
enum class Recompute : std::uint8_t {
  none,
  all,        ///< all but those of some layers (checkpoints), from which the others are computed
  automatic,  ///< "auto": the cheapest that fits TrainOptions::memory_limit
};

/// "none", "all" or "auto".
std::string_view name_of(Recompute recompute);

}  // namespace lockstep
