// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

namespace lockstep {

/// One hyper-parameter of an optimizer: where its value lies, which values it may have, and what
/// the command line says of it.
struct OptimizerHyperParameter {
  enum class Range : std::uint8_t {
    not_negative,  ///< [0, inf)
    below_one,     ///< [0, 1)
    positive,      ///< (0, inf)
  };
  std::string_view name;              ///< the member's, "weight_decay", as to_string() writes it
  std::variant<float*, bool*> value;  ///< in the optimizer that was asked
  std::string_view help;              ///< "decay rate of the first moment"
  Range range = Range::not_negative;  ///< of a float
};

}  // namespace lockstep
