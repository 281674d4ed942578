// SPDX-License-Identifier: Apache-2.0
// Packed image files, as they are and with the sums that fit them.
#include "lockstep/data/sources.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/load_samples.h"
#include "tests/fuzz/pack_parts.h"

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const fuzz::InputFile file;
  file.write(data, bytes);
  read(file.path(), bytes);
  std::vector<std::uint8_t> copy(data, data + bytes);
  fuzz::put_right(copy);  // few inputs would have the right sums and size
  file.write(copy.data(), copy.size());
  read(file.path(), bytes);
  return 0;
}
