// SPDX-License-Identifier: Apache-2.0
// The folder of cifar10, all of whose files are the same.
#include <fmt/format.h>

#include "lockstep/data/sources.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/load_samples.h"

using namespace lockstep;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const fuzz::InputFile file;
  static const fuzz::InputFolder folder;
  static const bool linked = [] {
    for (int i = 1; i <= 5; ++i) folder.link(fmt::format("data_batch_{}.bin", i), file);
    folder.link("test_batch.bin", file);
    return true;
  }();
  if (!linked) return 0;
  file.write(data, bytes);
  fuzz::run_parser(bytes, [&] { fuzz::load_samples(data::cifar10(folder.path().string())); });
  return 0;
}
