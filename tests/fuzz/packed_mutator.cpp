// SPDX-License-Identifier: Apache-2.0
// Mutations of packed files: fields of the header and of entries, samples that come, go and change
// their size, class names, and the border between the parts. Half of the results have the sums that
// fit them, so that the code after the sums is reached.
#include <cstddef>

#include "tests/fuzz/mutation.h"
#include "tests/fuzz/pack_parts.h"

namespace {

using namespace lockstep::fuzz;
using lockstep::data::PackEntry;
using lockstep::data::PackHeader;

template <typename Number>
void mutate_number(Number& value, Random& random) {
  value = Number(extreme_number(value, random));
}

void mutate_header(PackHeader& header, Random& random) {
  switch (random.below(10)) {
    case 0:
      header.magic[random.below(sizeof header.magic)] ^= 1;
      break;
    case 1:
      header.version = std::uint32_t(random.below(5));
      break;
    case 2:
      mutate_number(header.classes, random);
      break;
    case 3:
      mutate_number(header.file_bytes, random);
      break;
    case 4:
      mutate_number(header.train_samples, random);
      break;
    case 5:
      mutate_number(header.validation_samples, random);
      break;
    case 6:
      mutate_number(header.names_bytes, random);
      break;
    case 7:
      mutate_number(header.index_offset, random);
      break;
    case 8:
      mutate_number(header.short_side, random);
      break;
    default:
      mutate_number(header.reserved, random);
  }
}

void mutate_entry(PackEntry& entry, Random& random) {
  switch (random.below(6)) {
    case 0:
      mutate_number(entry.offset, random);
      break;
    case 1:
      mutate_number(entry.bytes, random);
      break;
    case 2:
      mutate_number(entry.label, random);
      break;
    case 3:
      mutate_number(entry.height, random);
      break;
    case 4:
      mutate_number(entry.width, random);
      break;
    default:
      mutate_number(entry.hash, random);
  }
}

/// Another size whose bytes fit it; the pixels may be those of the next sample too, or none.
void resize_sample(PackEntry& entry, Random& random) {
  constexpr std::uint32_t kSides[] = {1, 2, 3, 4, 8, 16, 17, 100, 4096, 65536};
  entry.height = random.pick(kSides);
  entry.width = random.pick(kSides);
  entry.bytes = entry.height * entry.width * 3;
}

void add_sample(PackParts& parts, Random& random) {
  PackEntry entry{};
  if (!parts.index.empty()) entry = random.pick(parts.index);
  entry.offset = sizeof parts.header + parts.names.size() + parts.pixels.size();
  entry.height = std::uint32_t(1 + random.below(6));
  entry.width = std::uint32_t(1 + random.below(6));
  entry.bytes = entry.height * entry.width * 3;
  for (std::uint32_t i = 0; i < entry.bytes; ++i)
    parts.pixels.push_back(std::uint8_t(random.next()));
  parts.index.push_back(entry);
}

void mutate_names(PackParts& parts, Random& random) {
  const std::size_t at = random.below(parts.names.size());
  switch (parts.names.empty() ? 0 : random.below(3)) {
    case 0:
      parts.names.insert(at, std::string("c\0", 2));
      ++parts.header.classes;
      break;
    case 1: {
      parts.header.classes -= parts.names[at] == '\0';
      parts.names.erase(at, 1);
      break;
    }
    default:
      parts.names[at] = char(random.next());
  }
}

void mutate_parts(PackParts& parts, Random& random) {
  switch (parts.index.empty() ? random.below(3) : random.below(8)) {
    case 0:
      add_sample(parts, random);
      break;
    case 1:
      mutate_names(parts, random);
      break;
    case 2:
      parts.header.train_samples = random.below(parts.index.size() + 2);
      break;
    case 3:
      parts.index.erase(parts.index.begin() + std::ptrdiff_t(random.below(parts.index.size())));
      break;
    case 4:
      resize_sample(random.pick(parts.index), random);
      break;
    case 5:
      if (!parts.pixels.empty()) random.pick(parts.pixels) ^= std::uint8_t(1 << random.below(8));
      break;
    case 6:
      std::swap(random.pick(parts.index), random.pick(parts.index));
      break;
    default:
      mutate_entry(random.pick(parts.index), random);
  }
}

/// The index as a file of version 1 has it: without the samples' sums.
Bytes first_version(PackParts parts) {
  parts.header.version = 1;
  const std::vector<PackEntry> index = std::exchange(parts.index, {});
  Bytes file = parts.file();
  for (const PackEntry& entry : index) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&entry);
    file.insert(file.end(), bytes, bytes + lockstep::data::kFirstEntryBytes);
  }
  return file;
}

Bytes mutate_pack(const Bytes& input, Random& random) {
  std::optional<PackParts> parts = pack_parts(input);
  if (!parts) return {};
  const bool sums = random.one_in(2);
  const std::size_t changes = 1 + random.below(3);
  for (std::size_t i = 0; i < changes; ++i) mutate_parts(*parts, random);
  parts->lay_out();
  if (sums && random.one_in(2)) put_sample_sums_right(*parts);
  if (random.one_in(4)) mutate_header(parts->header, random);
  Bytes file = random.one_in(16) ? first_version(*parts) : parts->file();
  if (random.one_in(16)) file.resize(random.below(file.size() + 16));
  if (sums) put_right(file);
  return file;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                               std::size_t bytes,
                                               std::size_t max,
                                               unsigned int seed) {
  return mutate_half(data, bytes, max, seed, mutate_pack);
}
