// SPDX-License-Identifier: Apache-2.0
// Header and tensors of a safetensors file; what is read is written again and must read the same.
#include "core/io/safetensors.h"

#include <cstring>

#include "core/io/load_weights.h"
#include "tests/fuzz/input_file.h"

using namespace lockstep;

namespace {

using Tensors = std::vector<std::vector<std::byte>>;

Tensors read_all(const io::SafetensorsReader& reader) {
  Tensors tensors;
  for (const io::TensorEntry& entry : reader.entries()) {
    fuzz::require(reader.contains(entry.name), "an entry that is not contained");
    tensors.emplace_back(entry.bytes);
    reader.read(entry, tensors.back());
  }
  return tensors;
}

void check_round_trip(const io::SafetensorsReader& reader, const Tensors& tensors) {
  static const fuzz::InputFolder folder;
  const std::string path = (folder.path() / "again.safetensors").string();
  std::vector<io::TensorView> views;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const io::TensorEntry& entry = reader.entries()[i];
    views.push_back({entry.name, entry.type, entry.shape, tensors[i]});
  }
  io::write_safetensors(path, views, reader.metadata());
  const io::SafetensorsReader again(path);
  fuzz::require(again.metadata() == reader.metadata(), "metadata changed");
  fuzz::require(again.entries().size() == tensors.size(), "tensors were lost");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const io::TensorEntry &before = reader.entries()[i], &after = again.entry(before.name);
    std::vector<std::byte> bytes(after.bytes);
    again.read(after, bytes);
    fuzz::require(before.type == after.type && before.shape == after.shape && bytes == tensors[i],
                  "tensor changed: " + before.name);
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
  fuzz::run_parser(bytes, [&] {
    const io::SafetensorsReader reader(file.path());
    const Tensors tensors = read_all(reader);
    check_round_trip(reader, tensors);
  });
  fuzz::run_parser(bytes, [&] { load_into_model(file.path()); });
  return 0;
}

namespace lockstep::fuzz {

std::vector<std::string> large_inputs() {
  const auto with_header = [](const std::string& header) {
    std::string file(8, '\0');
    const std::uint64_t bytes = header.size();
    std::memcpy(file.data(), &bytes, sizeof bytes);
    return file + header;
  };
  constexpr std::size_t kBytes = 8'000'000;
  std::string empty_tensors = "{";
  for (int i = 0; empty_tensors.size() < kBytes; ++i)
    empty_tensors += fmt::format(
        R"({}"{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", i == 0 ? "" : ",", i);
  return {with_header(R"({"a":[)" + repeated("[],", kBytes) + "[]]}"),
          with_header(R"({"a":[)" + repeated("0,", kBytes) + "0]}"),
          with_header(repeated("[", kBytes)),
          with_header(empty_tensors + "}")};
}

}  // namespace lockstep::fuzz
