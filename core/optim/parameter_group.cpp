// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parameter_group.h"

#include <fmt/format.h>

namespace lockstep {

std::string to_string(const ParameterGroup& group) {
  std::string text = group.pattern + ":";
  if (group.lr) text += fmt::format(" lr={}", *group.lr);
  if (group.weight_decay)
    text += fmt::format("{} weight-decay={}", group.lr ? "," : "", *group.weight_decay);
  return text;
}

}  // namespace lockstep
