// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

/// "97.50 MiB", "1.25 GiB"
std::string bytes_words(double bytes);

}  // namespace lockstep
