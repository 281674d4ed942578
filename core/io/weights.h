// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>

#include "lockstep/weights.h"

namespace lockstep::io {

/// The same as to_file_layout(), handed out in pieces, in order, so that no second copy is made.
void for_file_layout(const Parameter& parameter,
                     std::span<const float> stored,
                     const std::function<void(std::span<const float>)>& visit);

}  // namespace lockstep::io
