// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/data/images/pack_format.h"

namespace lockstep::fuzz {

/// A packed file of version 2 or 3 in its parts.
struct PackParts {
  data::PackHeader header{};
  std::string names;                 ///< each ends with a zero byte
  std::vector<std::uint8_t> pixels;  ///< of all samples, and what may lie between them
  std::vector<data::PackEntry> index;

  /// Header and index, as the file's layout has them: counts, sizes and offsets that follow from
  /// the parts. Offsets of samples move with the class names' size.
  void lay_out() {
    const std::uint64_t before = sizeof header + header.names_bytes;
    const std::uint64_t after = sizeof header + names.size();
    for (data::PackEntry& entry : index) entry.offset += after - before;
    header.names_bytes = names.size();
    header.index_offset = after + pixels.size();
    header.file_bytes = header.index_offset + index.size() * sizeof(data::PackEntry);
    if (header.train_samples > index.size()) header.train_samples = index.size();
    header.validation_samples = index.size() - header.train_samples;
  }

  std::vector<std::uint8_t> file() const {
    std::vector<std::uint8_t> result;
    const auto append = [&](const void* from, std::size_t bytes) {
      const auto* first = static_cast<const std::uint8_t*>(from);
      result.insert(result.end(), first, first + bytes);
    };
    append(&header, sizeof header);
    append(names.data(), names.size());
    append(pixels.data(), pixels.size());
    append(index.data(), index.size() * sizeof(data::PackEntry));
    return result;
  }
};

/// The parts of `file`; nothing where its offsets do not fit.
inline std::optional<PackParts> pack_parts(std::span<const std::uint8_t> file) {
  PackParts parts;
  if (file.size() < sizeof parts.header) return std::nullopt;
  std::memcpy(&parts.header, file.data(), sizeof parts.header);
  const std::uint64_t room = file.size() - sizeof parts.header, names = parts.header.names_bytes;
  if (names > room || parts.header.index_offset < sizeof parts.header + names ||
      parts.header.index_offset > file.size())
    return std::nullopt;
  const auto rest = file.subspan(sizeof parts.header);
  parts.names.assign(rest.begin(), rest.begin() + std::ptrdiff_t(names));
  const auto index = file.subspan(std::size_t(parts.header.index_offset));
  parts.pixels.assign(rest.begin() + std::ptrdiff_t(names),
                      rest.end() - std::ptrdiff_t(index.size()));
  parts.index.resize(index.size() / sizeof(data::PackEntry));
  if (!parts.index.empty())
    std::memcpy(parts.index.data(), index.data(), parts.index.size() * sizeof(data::PackEntry));
  return parts;
}

/// Gives each sample the sum of the pixels that its entry points at, where there are such.
inline void put_sample_sums_right(PackParts& parts) {
  const std::uint64_t first = sizeof parts.header + parts.names.size();
  for (data::PackEntry& entry : parts.index)
    if (entry.offset >= first && entry.offset - first <= parts.pixels.size() &&
        entry.bytes <= parts.pixels.size() - (entry.offset - first))
      entry.hash = data::pack_sum(
          parts.header.version, parts.pixels.data() + (entry.offset - first), entry.bytes);
}

/// Gives the header the size of the file and the sums of header, names and index.
inline void put_right(std::vector<std::uint8_t>& file) {
  data::PackHeader header;
  if (file.size() < sizeof header) return;
  std::memcpy(&header, file.data(), sizeof header);
  header.file_bytes = file.size();
  const std::size_t room = file.size() - sizeof header;
  if (header.names_bytes <= room && header.index_offset <= file.size()) {
    const std::uint64_t names =
        data::pack_sum(header.version, file.data() + sizeof header, header.names_bytes);
    header.index_hash = data::pack_sum(header.version,
                                       file.data() + header.index_offset,
                                       file.size() - header.index_offset,
                                       names);
  }
  header.header_hash =
      data::pack_sum(header.version, &header, offsetof(data::PackHeader, header_hash));
  std::memcpy(file.data(), &header, sizeof header);
}

}  // namespace lockstep::fuzz
