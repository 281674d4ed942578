// SPDX-License-Identifier: Apache-2.0
// Files of tokens: of 16 bits, bare and after a header, and of 32 bits.
#include "lockstep/data/sources.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/load_samples.h"

using namespace lockstep;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const fuzz::InputFile file;
  file.write(data, bytes);
  for (const std::int64_t vocabulary : {0, 65536})
    fuzz::run_parser(bytes, [&] {
      data::OpenOptions options;
      options.context = 8;
      options.vocabulary = vocabulary;
      options.ignore_index = 0;
      fuzz::load_samples(data::tokens(file.path(), options));
    });
  return 0;
}

namespace lockstep::fuzz {

std::vector<std::string> large_inputs() { return {repeated(std::string(2, '\1'), 8'000'000)}; }

}  // namespace lockstep::fuzz
