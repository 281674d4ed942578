// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

/// "97.50 MiB", "1.25 GiB"
std::string bytes_words(double bytes);

/// "12,345"
std::string with_thousands(double value);

/// "1m 23s"
std::string duration(double seconds);

}  // namespace lockstep
