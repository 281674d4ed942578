// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::ops {

/// Which formula of the Gaussian error linear unit (Hendrycks and Gimpel 2016, section 2):
///   erf:  y = x / 2 * (1 + erf(x / sqrt(2)))
///   tanh: y = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), as GPT-2 has it
enum class GeluKind : std::uint8_t { erf, tanh };

/// "erf" or "tanh".
std::string_view name_of(GeluKind kind);

}  // namespace lockstep::ops
