// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep::data {

/// Element types of NumPy's arrays: what '<f4' and its like say.
struct NpyType {
  enum class Kind : std::uint8_t { boolean, unsigned_whole, whole, real };
  Kind kind = Kind::real;
  int bytes = 4;

  bool is_whole() const { return kind != Kind::real; }
  /// NumPy's name: "uint8", "float32".
  std::string name() const;
  bool operator==(const NpyType&) const = default;
};

/// What the header of an .npy file says.
struct NpyHeader {
  NpyType type;
  std::vector<std::int64_t> shape;
  bool is_fortran = false;  ///< the first index is the innermost
  std::uint64_t bytes = 0;  ///< of the header: the elements come after it

  std::uint64_t elems() const;
  /// Of the elements.
  std::uint64_t data_bytes() const { return elems() * std::uint64_t(type.bytes); }
  /// "uint8[60000, 28, 28]"
  std::string to_string() const;
};

/// Bytes from the start of a file that tell how long its header is, and the longest header.
constexpr std::size_t kNpyPrefixBytes = 12;
constexpr std::uint64_t kMaxNpyHeaderBytes = std::uint64_t{1} << 20;

/// Whether a file that begins with `bytes` is one of NumPy's.
bool is_npy(std::span<const std::byte> bytes);

/// Length of the whole header of a file that begins with `prefix`, kNpyPrefixBytes or all there is.
/// Throws DataError naming `name`: not an .npy file, a version other than 1.0, 2.0 or 3.0, a header
/// longer than kMaxNpyHeaderBytes.
std::uint64_t npy_header_bytes(const std::string& name, std::span<const std::byte> prefix);

/// Reads the header, `bytes`, of as many bytes as npy_header_bytes() says. Throws DataError naming
/// `name`: not NumPy's dictionary of descr, fortran_order and shape; elements of another type than
/// bool, int, uint and float of 1 to 8 bytes in little-endian order; more than 6 dimensions or 2^62
/// bytes.
/// Source: numpy.lib.format, "The .npy format", versions 1.0 to 3.0.
NpyHeader parse_npy_header(const std::string& name, std::span<const std::byte> bytes);

}  // namespace lockstep::data
