// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::fuzz {

/// Counts the bytes that malloc, new and what builds on them hand out, in libraries too; memory
/// mapped from files is not counted. Measures from here on.
void start_heap_meter();

/// Most bytes that lay allocated at once since start_heap_meter(), beyond those of that moment.
std::int64_t peak_heap_bytes();

}  // namespace lockstep::fuzz
