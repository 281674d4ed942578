// SPDX-License-Identifier: Apache-2.0
// Packed image files, as they are and with the sums that fit them.
#include <cstring>

#include "core/data/input_file.h"
#include "core/data/pack_format.h"
#include "core/data/sources.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/load_samples.h"

using namespace lockstep;

namespace {

void read(const std::string& path, std::size_t bytes) {
  for (const double crop : {0.0, 0.3})
    fuzz::run_parser(bytes, [&] {
      data::ImageOptions options;
      options.size = 16;
      options.resized_crop = crop;
      fuzz::load_samples(data::packed(path, options));
    });
}

/// Few inputs would have the right sums and size.
void put_right(std::vector<std::uint8_t>& file) {
  data::PackHeader header;
  if (file.size() < sizeof header) return;
  std::memcpy(&header, file.data(), sizeof header);
  header.file_bytes = file.size();
  const std::size_t room = file.size() - sizeof header;
  if (header.names_bytes <= room && header.index_offset <= file.size()) {
    const std::uint64_t names = data::content_hash(file.data() + sizeof header, header.names_bytes);
    header.index_hash = data::content_hash(
        file.data() + header.index_offset, file.size() - header.index_offset, names);
  }
  header.header_hash = data::content_hash(&header, offsetof(data::PackHeader, header_hash));
  std::memcpy(file.data(), &header, sizeof header);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const fuzz::InputFile file;
  file.write(data, bytes);
  read(file.path(), bytes);
  std::vector<std::uint8_t> copy(data, data + bytes);
  put_right(copy);
  file.write(copy.data(), copy.size());
  read(file.path(), bytes);
  return 0;
}
