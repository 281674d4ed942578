// SPDX-License-Identifier: Apache-2.0
#include "core/io/open_weights.h"

#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/file_kind.h"
#include "core/base/parameter_names.h"
#include "core/io/safetensors.h"
#include "core/io/sharded_weights.h"
#include "core/io/torch/torch_file.h"
#include "lockstep/error.h"

namespace lockstep::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexEnding = ".index.json";
constexpr const char* kNamesInFolder[] = {"model.safetensors",
                                          "model.safetensors.index.json",
                                          "pytorch_model.bin",
                                          "pytorch_model.bin.index.json"};

class SafetensorsWeights final : public WeightSource {
 public:
  explicit SafetensorsWeights(const std::string& file) : WeightSource(file), reader_(file) {
    for (const TensorEntry& entry : reader_.entries())
      entries_.push_back({entry.name, entry.type, entry.shape, entry.bytes});
  }
  void read(std::size_t index, std::span<std::byte> to) const override {
    reader_.read(reader_.entries()[index], to);
  }

 private:
  SafetensorsReader reader_;
};

std::string find_in_folder(const std::string& folder) {
  for (const char* name : kNamesInFolder)
    if (is_file(fs::path(folder) / name)) return (fs::path(folder) / name).string();
  throw DataError(
      fmt::format("{}: a folder without {}", as_written(folder), fmt::join(kNamesInFolder, ", ")),
      "name the file with the weights, or a folder with one of these");
}

}  // namespace

std::unique_ptr<WeightSource> open_weight_file(const std::string& file) {
  if (torch::is_torch_file(file)) return std::make_unique<torch::TorchFile>(file);
  return std::make_unique<SafetensorsWeights>(file);
}

std::unique_ptr<WeightSource> open_weights(const std::string& path) {
  const std::string file = is_folder(path) ? find_in_folder(path) : path;
  if (file.ends_with(kIndexEnding)) return std::make_unique<ShardedWeights>(file, open_weight_file);
  return open_weight_file(file);
}

}  // namespace lockstep::io
