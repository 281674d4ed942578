// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/base/xxh64.h"
#include "core/data/input_file.h"

namespace lockstep::data {

/// A packed file: header, class names (each ends with a zero byte), pixels u8 [height, width, 3] of
/// one sample after the other, index. Numbers are little-endian; offsets count from the file's
/// first byte. Training samples come first, in the order of their source.
struct PackHeader {
  char magic[8];                     ///< "LOCKPACK"
  std::uint32_t version;             ///< 3; of 1, entries end before `hash`
  std::uint32_t classes;             ///< at least 1
  std::uint64_t file_bytes;          ///< of the whole file
  std::uint64_t train_samples;       ///< at least 1
  std::uint64_t validation_samples;  ///< 0: no validation part
  std::uint64_t names_bytes;         ///< class names, right after the header
  std::uint64_t index_offset;        ///< PackEntry per sample, to the end of the file
  std::uint64_t content_hash;        ///< of names, pixels and index
  std::uint64_t index_hash;          ///< of names and index, checked when the file is opened
  std::uint32_t short_side;          ///< larger images were shrunk to this
  std::uint32_t reserved;            ///< 0
  std::uint64_t header_hash;         ///< of the bytes before it
};

struct PackEntry {
  std::uint64_t offset;  ///< of the pixels
  std::uint32_t bytes;   ///< height * width * 3
  std::uint32_t label;
  std::uint32_t height;
  std::uint32_t width;
  std::uint64_t hash;  ///< of the pixels, checked each time they are read
};

constexpr char kPackMagic[8] = {'L', 'O', 'C', 'K', 'P', 'A', 'C', 'K'};
constexpr std::uint32_t kPackVersion = 3;
/// Of an entry in a file of version 1.
constexpr std::size_t kFirstEntryBytes = 24;

/// The sum in files of a version. That of 1 and 2 does not change where the highest bits of bytes
/// 7, 11 and 15 flip together, counted from a multiple of 8.
inline std::uint64_t pack_sum(std::uint32_t version,
                              const void* data,
                              std::size_t bytes,
                              std::uint64_t seed = 0) {
  return version < 3 ? content_hash(data, bytes, seed) : xxh64(data, bytes, seed);
}

static_assert(sizeof(PackHeader) == 88 && sizeof(PackEntry) == 32);
static_assert(std::endian::native == std::endian::little, "packed files are read as they lie");

}  // namespace lockstep::data
