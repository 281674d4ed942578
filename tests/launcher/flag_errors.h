// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/settings/flags.h"
#include "lockstep/error.h"

namespace lockstep {

using Arguments = std::vector<std::string>;

/// "error | hint" of what parse_train_flags() refuses of `arguments`, or "no error".
inline std::string flag_error(const Arguments& arguments) {
  try {
    parse_train_flags(arguments);
  } catch (const ConfigError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "no error";
}

}  // namespace lockstep
