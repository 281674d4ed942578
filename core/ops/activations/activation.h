// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

namespace lockstep::ops {

/// The limit of a ReLU that has none.
inline constexpr float kNoLimit = std::numeric_limits<float>::infinity();

/// The largest input of a ReLU whose gradient is not 0: the number below the limit, infinity where
/// there is none.
inline float largest_open(float limit) {
  return limit == kNoLimit ? kNoLimit : std::nextafter(limit, 0.0f);
}

/// What a fused operator applies to its result: see Relu and Gelu.
enum class Activation : std::uint8_t { none, relu, gelu_erf, gelu_tanh };

constexpr bool is_gelu(Activation activation) {
  return activation == Activation::gelu_erf || activation == Activation::gelu_tanh;
}

constexpr std::string_view name_of(Activation activation) {
  switch (activation) {
    case Activation::none:
      return "";
    case Activation::relu:
      return "relu";
    case Activation::gelu_erf:
      return "gelu_erf";
    case Activation::gelu_tanh:
      return "gelu_tanh";
  }
  return "unknown";
}

}  // namespace lockstep::ops
