// SPDX-License-Identifier: Apache-2.0
// The folder of mnist: two bytes say how long the file of images is, the labels follow it. Training
// and test part are the same.
#include <algorithm>

#include "lockstep/data/sources.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/load_samples.h"

using namespace lockstep;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const fuzz::InputFile images, labels;
  static const fuzz::InputFolder folder;
  static const bool linked = [] {
    for (const char* part : {"train", "t10k"}) {
      folder.link(fmt::format("{}-images-idx3-ubyte", part), images);
      folder.link(fmt::format("{}-labels-idx1-ubyte", part), labels);
    }
    return true;
  }();
  if (!linked || bytes < 2) return 0;
  const std::size_t cut = std::min<std::size_t>(data[0] | data[1] << 8, bytes - 2);
  images.write(data + 2, cut);
  labels.write(data + 2 + cut, bytes - 2 - cut);
  fuzz::run_parser(2 * bytes, [&] { fuzz::load_samples(data::mnist(folder.path().string())); });
  return 0;
}
