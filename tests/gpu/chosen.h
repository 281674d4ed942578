// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::rates {

/// What a library was asked for: a product or convolution with all that it does in addition to
/// that, and the algorithm that it has.
struct Chosen {
  std::string what;       ///< an AlgorithmCache's key: "product 8192x3072x768 ..., bias bf16"
  std::string algorithm;  ///< empty: it was refused, and something else fell in
  std::string why_none;   ///< then

  bool operator==(const Chosen&) const = default;
};

/// Of Backend::choices(), in its order.
std::vector<Chosen> chosen_in(std::string_view choices);

/// "product ..., none f32: workspace 0 algorithm 0f0000001200...", long numbers cut off; or
/// "fallback, as product ..., gelu_tanh_gradient was refused: CUBLAS_STATUS_NOT_SUPPORTED".
std::string words_of(const Chosen& chosen);

}  // namespace lockstep::rates
