// SPDX-License-Identifier: Apache-2.0
// IDX files, plain and compressed, of one and of three dimensions.
#include "core/data/idx.h"

#include "tests/fuzz/input_file.h"

using namespace lockstep;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const fuzz::InputFile file;
  file.write(data, bytes);
  // What a compressed file holds can be a thousand times its size: that counts as the file.
  constexpr std::size_t kMaxExpansion = 1040;
  const bool compressed = bytes >= 2 && data[0] == 0x1f && data[1] == 0x8b;
  for (const int rank : {1, 3})
    fuzz::run_parser(compressed ? bytes * kMaxExpansion : bytes, [&] {
      const data::IdxFile idx = data::read_idx(file.path(), rank, "hint");
      fuzz::require(int(idx.dims.size()) == rank, "another number of dimensions");
      std::int64_t elements = 1;
      for (const std::int64_t dim : idx.dims) elements *= dim;
      fuzz::require(std::int64_t(idx.data.size()) == elements, "more or fewer elements");
    });
  return 0;
}

namespace lockstep::fuzz {

std::vector<std::string> large_inputs() {
  constexpr int kItems = 8'000'000;
  std::string labels{
      0, 0, 8, 1, 0, char(kItems >> 16 & 0xff), char(kItems >> 8 & 0xff), char(kItems & 0xff)};
  return {labels + repeated("\1", kItems)};
}

}  // namespace lockstep::fuzz
