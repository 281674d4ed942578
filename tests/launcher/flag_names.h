// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/parameter_names.h"
#include "launcher/settings/table/setting.h"

namespace lockstep {

/// Included once in a test program: parameters are flags in its messages, as main() of the tool
/// has it.
[[maybe_unused]] static const bool parameters_are_flags = [] {
  set_parameter_style(flag_of_parameter);
  return true;
}();

}  // namespace lockstep
