// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

/// The Castagnoli checksum of RFC 3720: reflected polynomial 0x82f63b78, all bits inverted before
/// and after. "123456789" has 0xe3069283.
std::uint32_t crc32c(std::string_view bytes);

}  // namespace lockstep
