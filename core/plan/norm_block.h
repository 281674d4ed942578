// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

/// Elements in one block of the reproducible norm, counted from the start of each tensor. Backends
/// sum blocks, and lay_out() lets no rank's chunk end within one.
inline constexpr std::int64_t kNormBlock = 4096;

}  // namespace lockstep
