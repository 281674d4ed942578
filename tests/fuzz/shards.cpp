// SPDX-License-Identifier: Apache-2.0
// Shards of WebDataset, as they are and with the sums of their headers put right: few inputs would
// have those.
#include <cstdio>
#include <cstring>

#include "core/data/shards/shard_list.h"
#include "lockstep/data/sources.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/load_samples.h"

using namespace lockstep;

namespace {

constexpr std::size_t kBlock = 512, kSum = 148, kMagic = 257;

void put_sums_right(std::vector<std::uint8_t>& tar) {
  for (std::size_t at = 0; at + kBlock <= tar.size(); at += kBlock) {
    std::uint8_t* const header = tar.data() + at;
    if (std::memcmp(header + kMagic, "ustar", 5) != 0) continue;
    std::memset(header + kSum, ' ', 8);
    unsigned sum = 0;
    for (std::size_t i = 0; i < kBlock; ++i) sum += header[i];
    char digits[8];
    std::snprintf(digits, sizeof digits, "%06o", sum);
    std::memcpy(header + kSum, digits, 7);
  }
}

void read(const std::string& path, std::size_t bytes) {
  for (const double fraction : {0.0, 0.5})
    fuzz::run_parser(bytes, [&] {
      fuzz::load_samples(data::webdataset(path, {.size = 16, .validation_fraction = fraction}));
    });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const fuzz::InputFile file;
  if (bytes < 256)
    fuzz::run_parser(bytes, [&] { data::expand_braces(std::string(fuzz::as_text(data, bytes))); });
  file.write(data, bytes);
  read(file.path(), bytes);
  std::vector<std::uint8_t> copy(data, data + bytes);
  put_sums_right(copy);
  file.write(copy.data(), copy.size());
  read(file.path(), bytes);
  return 0;
}
