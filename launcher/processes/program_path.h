// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/env.h"

namespace lockstep {

/// Path of `program` in $PATH; empty where there is none.
std::string find_program(const std::string& program, const VariableMap& variables);

/// Path of this program. Throws EnvironmentError: /proc does not say.
std::string own_path();

}  // namespace lockstep
