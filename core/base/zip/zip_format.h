// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

/// Numbers of the zip format (PKWARE's APPNOTE.TXT 6.3), which are little-endian.
namespace lockstep {

static_assert(std::endian::native == std::endian::little, "numbers of zip files are little-endian");

inline constexpr std::uint32_t kLocalHeader = 0x04034b50, kCentralHeader = 0x02014b50,
                               kEndRecord = 0x06054b50, kEndRecord64 = 0x06064b50,
                               kEndLocator64 = 0x07064b50;
inline constexpr std::size_t kLocalHeaderBytes = 30, kCentralHeaderBytes = 46, kEndRecordBytes = 22,
                             kEndRecord64Bytes = 56, kEndLocator64Bytes = 20;
/// The extra field that holds what 32 bits cannot, and the placeholder in those.
inline constexpr std::uint16_t kExtra64 = 1;
inline constexpr std::uint32_t kInExtra64 = 0xffffffff;

/// The number at `offset`, which must lie in `bytes` with all of it.
template <typename T>
T number_at(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.subspan(offset, sizeof value).data(), sizeof value);
  return value;
}

}  // namespace lockstep
