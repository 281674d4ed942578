// SPDX-License-Identifier: Apache-2.0
// What torch.save() writes: the input as a file, zip archive or older, and as a pickle alone.
#include "core/io/torch/torch_file.h"

#include <algorithm>

#include "core/io/load_weights.h"
#include "core/io/torch/state_dict.h"
#include "tests/fuzz/input_file.h"

using namespace lockstep;

namespace {

/// Many views may share one storage: what reading them takes is not a multiple of the input.
constexpr std::size_t kMaxRead = 64;

void read_tensors(const std::string& path, std::size_t bytes) {
  const io::torch::TorchFile file(path);
  for (std::size_t i = 0; i < std::min(file.entries().size(), kMaxRead); ++i) {
    const io::WeightEntry& entry = file.entries()[i];
    fuzz::require(entry.bytes <= bytes, "a tensor larger than the file: " + entry.name);
    std::vector<std::byte> values(entry.bytes);
    file.read(i, values);
  }
}

/// A model with a matrix and a vector, which the file may or may not hold.
void load_into_model(const std::string& path) {
  std::vector<Parameter> model(2);
  model[0].name = "a";
  model[0].shape = {2, 3};
  model[1].name = "b";
  model[1].shape = {3};
  for (Parameter& parameter : model) parameter.file_layout = {parameter.shape, {}, parameter.shape};
  (void)io::load_weights(path, model, {});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const fuzz::InputFile file;
  file.write(data, bytes);
  fuzz::run_parser(bytes, [&] { read_tensors(file.path(), bytes); });
  fuzz::run_parser(bytes, [&] { load_into_model(file.path()); });
  fuzz::run_parser(bytes, [&] {
    const io::torch::Pickle pickle("pickle", fuzz::as_text(data, bytes));
    fuzz::require(pickle.bytes() <= bytes, "a pickle longer than its bytes");
    (void)io::torch::state_dict_of("pickle", pickle);
  });
  return 0;
}

namespace lockstep::fuzz {

std::vector<std::string> large_inputs() {
  using namespace std::string_literals;
  constexpr std::size_t kBytes = 8'000'000;
  const std::string legacy =
      "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\2M\xe9\3."s + "\x80\2}.\x80\2";
  const std::string tensor = "(X\7\0\0\0storagectorch\nFloatStorage\nU\0010U\0K\1tQ"s;
  std::string keys = legacy + "}(",
              tensors = legacy + "ctorch._utils\n_rebuild_tensor_v2\nq\1" + tensor + "q\2}(";
  for (int i = 0; keys.size() < kBytes; ++i) keys += fmt::format("U\x07{:07}N", i);
  for (int i = 0; tensors.size() < kBytes; ++i)
    tensors += fmt::format("U\x07{:07}h\1(h\2K", i) + "\0))NNtR"s;
  std::string entries, entry = "PK\1\2"s + std::string(42, '\0') + "0000000";
  entry[28] = 7;
  int count = 0;
  for (; entries.size() < kBytes; ++count)
    entries += entry.substr(0, 46) + fmt::format("{:07}", count);
  const auto number = [](std::uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += char(value >> (8 * i));
    return text;
  };
  const std::string record = "PK\6\6"s + number(44, 8) + std::string(12, '\0') +
                             number(std::uint64_t(count), 8) + number(std::uint64_t(count), 8) +
                             number(entries.size(), 8) + number(4, 8);
  const std::string archive = "PK\3\4"s + entries + record + "PK\6\7"s + number(0, 4) +
                              number(4 + entries.size(), 8) + number(1, 4) + "PK\5\6"s +
                              number(0, 4) + std::string(12, '\xff') + number(0, 2);
  return {legacy + repeated("]", kBytes),
          legacy + repeated("(", kBytes),
          legacy + "]" + repeated("\x94", kBytes),
          legacy + "]q\1" + repeated("h\1", kBytes),
          legacy + repeated("(((tt", kBytes),
          legacy + "(" + repeated("N", kBytes / 100) + "tq\1ccollections\nOrderedDict\nq\2" +
              repeated("0h\2h\1R", kBytes),
          keys + "u.",
          tensors + "u.",
          archive};
}

}  // namespace lockstep::fuzz
