// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace lockstep::fuzz {

/// The files of a checkpoint, as inputs of the target `checkpoint` have them:
/// "%%manifest.json\n...%%state.json\n...".
using CheckpointFiles = std::map<std::string, std::string>;

inline constexpr std::string_view kCheckpointFiles[] = {
    "manifest.json", "state.json", "model.safetensors", "optimizer.safetensors", "config.toml"};

inline CheckpointFiles checkpoint_files(std::string_view input) {
  CheckpointFiles files;
  for (const std::string_view name : kCheckpointFiles) {
    const std::string mark = "%%" + std::string(name) + "\n";
    const std::size_t from = input.find(mark);
    if (from == std::string_view::npos) continue;
    const std::string_view rest = input.substr(from + mark.size());
    files[std::string(name)] = rest.substr(0, rest.find("%%"));
  }
  return files;
}

inline std::string checkpoint_input(const CheckpointFiles& files) {
  std::string input;
  for (const auto& [name, content] : files) input += "%%" + name + "\n" + content;
  return input;
}

}  // namespace lockstep::fuzz
