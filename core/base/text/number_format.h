// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

/// "97.50 MiB", "1.25 GiB"
std::string format_bytes(double bytes);

/// "12,345"
std::string format_count(double value);

/// "1m 23s"
std::string format_duration(double seconds);

}  // namespace lockstep
