// SPDX-License-Identifier: Apache-2.0
// NumPy's arrays: the input is an .npz where it begins as a zip file; else 16 bits say how many of
// its bytes are x.npy, and the others are y.npy.
#include <algorithm>
#include <cstring>

#include "core/data/arrays/array_inputs.h"
#include "lockstep/data/sources.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/load_samples.h"

using namespace lockstep;

namespace {

void open_all(const std::string& path, std::size_t bytes) {
  for (const double fraction : {0.0, 0.5})
    fuzz::run_parser(
        bytes, [&] { fuzz::load_samples(data::numpy(path, {.validation_fraction = fraction})); });
  for (const data::Task task : {data::Task::classification, data::Task::regression})
    fuzz::run_parser(bytes,
                     [&] { fuzz::load_samples(data::numpy(path, {.table = {.task = task}})); });
}

/// A run on rows of two numbers.
const data::Preprocessing& trained_run() {
  static const data::Preprocessing record = [] {
    data::Preprocessing trained;
    trained.source = "numpy";
    trained.table = data::array_table(2, 1);
    trained.samples.input = {{2}, DType::f32};
    trained.samples.target = {{}, DType::i32};
    trained.samples.classes = 3;
    return trained;
  }();
  return record;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const fuzz::InputFile archive, inputs, targets;
  static const fuzz::InputFolder folder;
  static const bool linked = [] {
    folder.link("x.npy", inputs);
    folder.link("y.npy", targets);
    return true;
  }();
  (void)linked;
  if (bytes >= 2 && data[0] == 'P' && data[1] == 'K') {
    archive.write(data, bytes);
    open_all(archive.path(), bytes);
    return 0;
  }
  if (bytes < 2) return 0;
  std::uint16_t first = 0;
  std::memcpy(&first, data, sizeof first);
  const std::size_t of_inputs = std::min<std::size_t>(first, bytes - 2);
  inputs.write(data + 2, of_inputs);
  targets.write(data + 2 + of_inputs, bytes - 2 - of_inputs);
  open_all(folder.path().string(), bytes);
  fuzz::run_parser(bytes, [&] {
    data::OpenOptions options{.validation_fraction = 1};
    options.trained = &trained_run();
    fuzz::load_samples(data::numpy(folder.path().string(), options).validation);
  });
  return 0;
}
