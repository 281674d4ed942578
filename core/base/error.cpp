// SPDX-License-Identifier: Apache-2.0
#include "lockstep/error.h"

#include "core/base/parameter_names.h"

namespace lockstep {

Error::Error(const std::string& message, const std::string& hint, ExitCode exit_code)
    : std::runtime_error(name_parameters(message)),
      hint_(name_parameters(hint)),
      parameters_(parameters_in(message + hint)),
      exit_code_(exit_code) {}

}  // namespace lockstep
