// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// A setting that a config.json of Hugging Face's decides, and its key there.
struct OfConfig {
  const char* name;
  std::string text;
  const char* key;
  bool at_most = false;  ///< a smaller number does as well
};

/// What a config.json says of a model.
struct HuggingFaceModel {
  std::string type;   ///< "gpt2" or "llama"
  std::string model;  ///< as --model has it: "gpt" or "llama"
  std::vector<OfConfig> settings;
  OfConfig vocabulary;
};

/// Reads a config.json, with the defaults of Hugging Face's GPT2Config or LlamaConfig for what is
/// not in it. Throws DataError: it cannot be read, is of another model, or of one with something
/// that gpt or llama cannot have.
HuggingFaceModel read_hugging_face_config(const std::string& file);

}  // namespace lockstep
