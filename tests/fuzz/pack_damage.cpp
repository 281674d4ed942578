// SPDX-License-Identifier: Apache-2.0
// Whether a packed file that was damaged is ever read as another one. An input chooses a file and
// what happens to it (pack_damage.h); no sum is put right. A file that is still accepted must have
// the same header, classes and index, and reading a sample must fail where a byte of it has
// changed, and only there. What happened how often is printed at exit.
#include "tests/fuzz/pack_damage.h"

#include <algorithm>
#include <cstdlib>

#include "lockstep/data/sources.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/load_samples.h"
#include "tests/fuzz/pack_parts.h"

using namespace lockstep;

namespace {

using File = std::vector<std::uint8_t>;

struct Counts {
  std::int64_t inputs = 0;
  std::int64_t unchanged = 0;  ///< the damage changed no byte
  std::int64_t refused = 0;    ///< when it was opened
  std::int64_t by_sum = 0;     ///< accepted, and each changed sample was refused when it was read
  std::int64_t harmless = 0;   ///< accepted, bytes changed that belong to no sample
};
Counts counts;

void print_counts() {
  std::fprintf(stderr,
               "COUNTS: %lld damaged packs: %lld unchanged, %lld refused when opened, %lld by a "
               "sample's sum, %lld harmless, 0 read as another pack\n",
               static_cast<long long>(counts.inputs),
               static_cast<long long>(counts.unchanged),
               static_cast<long long>(counts.refused),
               static_cast<long long>(counts.by_sum),
               static_cast<long long>(counts.harmless));
}

/// A pack of `samples` images with sides of `side` pixels and more. Every third is black, so that
/// samples of one content are there; 16 bytes between the samples belong to none.
File make_pack(int samples, int validation, std::uint32_t side, std::uint32_t classes) {
  fuzz::PackParts parts;
  std::memcpy(parts.header.magic, data::kPackMagic, sizeof data::kPackMagic);
  parts.header.version = data::kPackVersion;
  parts.header.classes = classes;
  parts.header.short_side = 256;
  parts.header.train_samples = std::uint64_t(samples - validation);
  for (std::uint32_t c = 0; c < classes; ++c) parts.names += fmt::format("class {}", c) + '\0';
  std::uint32_t noise = 1;
  for (int i = 0; i < samples; ++i) {
    data::PackEntry entry{};
    entry.height = side + std::uint32_t(i % 3);
    entry.width = side;
    entry.bytes = entry.height * entry.width * 3;
    entry.label = std::uint32_t(i) % classes;
    entry.offset = sizeof parts.header + parts.pixels.size();  // lay_out() adds the names
    for (std::uint32_t b = 0; b < entry.bytes + 16; ++b) {
      noise = noise * 1664525u + 1013904223u;
      parts.pixels.push_back(i % 3 == 2 ? std::uint8_t(0) : std::uint8_t(noise >> 24));
    }
    parts.index.push_back(entry);
  }
  parts.lay_out();
  fuzz::put_sample_sums_right(parts);
  File file = parts.file();
  fuzz::put_right(file);
  return file;
}

void apply_damage(const fuzz::PackDamage& damage, File& file) {
  using Damage = fuzz::PackDamage;
  if (file.empty()) return;
  const std::size_t at = file.size() * damage.at / 65536;
  const std::size_t count = std::min<std::size_t>(damage.count, file.size() - at);
  const auto first = file.begin() + std::ptrdiff_t(at), last = first + std::ptrdiff_t(count);
  const auto bit = std::uint8_t(1 << damage.value % 8);
  switch (damage.kind % Damage::kinds) {
    case Damage::flip:
      *first ^= bit;
      break;
    case Damage::set:
      *first = damage.value;
      break;
    case Damage::fill:
      std::fill(first, last, damage.value);
      break;
    case Damage::exchange:
      std::swap_ranges(first, first + std::ptrdiff_t(count / 2), first + std::ptrdiff_t(count / 2));
      break;
    case Damage::copy: {
      const std::size_t from = std::min<std::size_t>(256u * damage.value, file.size() - count);
      std::memmove(&file[at], file.data() + from, count);
      break;
    }
    case Damage::stuck:
      for (std::size_t i = at; i < at + count; i += 8) file[i] |= bit;
      break;
    case Damage::cut:
      file.resize(at);
      break;
    case Damage::insert:
      file.insert(first, damage.count % 4096, damage.value);
      break;
    case Damage::top_bits:
      for (std::size_t i = at; i < std::min(at + 12, file.size()); i += 4) file[i] ^= 0x80;
      break;
    default:
      file.erase(first, last);
  }
}

/// Samples as training would get them; empty where reading one was refused.
std::vector<std::vector<std::byte>> samples_of(const data::DataSplit& split) {
  std::vector<std::vector<std::byte>> samples;
  for (const auto& part : {split.train, split.validation}) {
    if (part == nullptr) continue;
    const std::size_t input = part->spec().input.bytes(), target = part->spec().target.bytes();
    for (std::int64_t i = 0; i < part->size(); ++i) {
      std::vector<std::byte> sample(input + target);
      try {
        part->load(0, i, sample.data(), sample.data() + input);
      } catch (const DataError&) {
        sample.clear();
      }
      samples.push_back(std::move(sample));
    }
  }
  return samples;
}

struct Original {
  File bytes;
  fuzz::PackParts parts;
  std::vector<std::vector<std::byte>> samples;
};

data::DataSplit open_pack(const std::string& path) {
  data::ImageOptions options;
  options.size = 8;
  return data::packed(path, options);
}

Original make_original(const fuzz::InputFile& file, File bytes) {
  file.write(bytes.data(), bytes.size());
  auto samples = samples_of(open_pack(file.path()));
  const bool whole = std::ranges::none_of(samples, [](const auto& s) { return s.empty(); });
  fuzz::require(whole, "a whole pack has a sample that cannot be read");
  return {bytes, *fuzz::pack_parts(bytes), std::move(samples)};
}

/// `damaged` has been accepted as `split`.
void check_accepted(const Original& original, const File& damaged, const data::DataSplit& split) {
  const std::size_t index = std::size_t(original.parts.header.index_offset);
  const std::size_t names = sizeof(data::PackHeader) + original.parts.names.size();
  const auto same = [&](std::size_t first, std::size_t last) {
    return std::memcmp(&damaged[first], &original.bytes[first], last - first) == 0;
  };
  fuzz::require(
      damaged.size() == original.bytes.size() && same(0, names) && same(index, damaged.size()),
      "another header, names or index was accepted");
  std::size_t changed = 0, refused = 0;
  for (const data::PackEntry& entry : original.parts.index)
    changed += !same(std::size_t(entry.offset), std::size_t(entry.offset + entry.bytes));
  const auto samples = samples_of(split);
  fuzz::require(samples.size() == original.samples.size(), "another count of samples");
  for (std::size_t i = 0; i < samples.size(); ++i) {
    refused += samples[i].empty();
    fuzz::require(samples[i].empty() || samples[i] == original.samples[i],
                  fmt::format("sample {} is another one, with a sum that fits", i));
  }
  fuzz::require(refused == changed,
                fmt::format("{} samples have changed, {} were refused", changed, refused));
  ++(changed > 0 ? counts.by_sum : counts.harmless);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const fuzz::InputFile file;
  static const std::vector<Original> originals = [] {
    std::atexit(print_counts);
    std::vector<Original> result;
    for (File pack : {make_pack(3, 0, 8, 2),
                      make_pack(7, 2, 3, 4),
                      make_pack(1, 0, 1, 1),
                      make_pack(24, 8, 4, 5)})
      result.push_back(make_original(file, std::move(pack)));
    return result;
  }();
  if (bytes == 0) return 0;
  const Original& original = originals[data[0] % originals.size()];
  File damaged = original.bytes;
  constexpr std::size_t kMaxDamages = 16;
  for (std::size_t i = 0, at = 1; i < kMaxDamages && at + sizeof(fuzz::PackDamage) <= bytes; ++i) {
    fuzz::PackDamage damage;
    std::memcpy(&damage, data + at, sizeof damage);
    apply_damage(damage, damaged);
    at += sizeof damage;
  }
  ++counts.inputs;
  if (damaged == original.bytes) {
    ++counts.unchanged;
    return 0;
  }
  file.write(damaged.data(), damaged.size());
  fuzz::run_parser(damaged.size(), [&] {
    data::DataSplit split;
    try {
      split = open_pack(file.path());
    } catch (const Error&) {
      ++counts.refused;
      throw;
    }
    check_accepted(original, damaged, split);
  });
  return 0;
}
