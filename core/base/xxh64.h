// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

/// XXH64 of the xxHash specification: tells contents apart, resists no attacker. "xxhash" has
/// 0x32dd38952c4bc720 (seed 0).
std::uint64_t xxh64(const void* data, std::size_t bytes, std::uint64_t seed = 0);

}  // namespace lockstep
