// SPDX-License-Identifier: Apache-2.0
// The index of weights in several files, with two shards next to it. The input is the index, the
// mark "%%" and a safetensors file, which both shards are.
#include "core/io/open_weights.h"
#include "core/io/sharded_weights.h"
#include "tests/fuzz/input_file.h"

using namespace lockstep;

namespace {

/// The files of an input, whose content changes.
struct IndexFolder {
  IndexFolder() {
    folder.link("x.index.json", index);
    folder.link("a.safetensors", shard);
    folder.link("b.safetensors", shard);
  }
  fuzz::InputFile index, shard;
  fuzz::InputFolder folder;
};

void read_index_and_tensors(const std::string& path) {
  const io::ShardedWeights weights(path, io::open_weight_file);
  for (std::size_t i = 0; i < weights.entries().size(); ++i) {
    std::vector<std::byte> values(weights.entries()[i].bytes);
    weights.read(i, values);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const IndexFolder files;
  const std::string_view text = fuzz::as_text(data, bytes);
  const std::size_t mark = text.find("%%");
  files.index.write(text.substr(0, mark));
  files.shard.write(mark == text.npos ? std::string_view() : text.substr(mark + 2));
  fuzz::run_parser(
      bytes, [&] { read_index_and_tensors((files.folder.path() / "x.index.json").string()); });
  return 0;
}

namespace lockstep::fuzz {

std::vector<std::string> large_inputs() {
  constexpr std::size_t kBytes = 8'000'000;
  std::string shards = R"({"weight_map":{)";
  for (int i = 0; shards.size() < kBytes; ++i)
    shards += fmt::format(R"({}"{}":"a.safetensors")", i == 0 ? "" : ",", i);
  return {shards + "}}", R"({"weight_map":{},"metadata":[)" + repeated("0,", kBytes) + "0]}"};
}

}  // namespace lockstep::fuzz
