// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/source_loc.h"

namespace lockstep {

/// "FILE:LINE", for messages: a file of Lockstep by its path in the project, not where it lay when
/// it was built; a user's as the compiler was given it.
std::string place_of(SourceLoc where);

}  // namespace lockstep
