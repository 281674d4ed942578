// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/init_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/data/input_file.h"
#include "core/io/strict_json.h"
#include "core/nn/gpt.h"
#include "core/nn/zoo.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// config.json, with the defaults of Hugging Face's GPT2Config for what is not in it.
class HuggingFaceConfig {
 public:
  explicit HuggingFaceConfig(const std::string& file) : file_(file) {
    constexpr int kMaxDepth = 32;
    config_ = io::parse_strict_json(data::read_text_file(file, ""), file, kMaxDepth);
    if (!config_.is_object()) throw DataError(file_ + ": not a JSON object");
  }

  const std::string& file() const { return file_; }
  std::int64_t size(const char* key, std::int64_t otherwise) const {
    const json value = value_of(key, otherwise);
    constexpr std::int64_t kMax = 1 << 20;
    LOCKSTEP_CHECK(value.is_number_integer() && value >= 1 && value <= kMax,
                   DataError,
                   "{}: {} is {}, expected a whole number from 1 to {}",
                   file_,
                   key,
                   value.dump(),
                   kMax);
    return value.get<std::int64_t>();
  }
  bool flag(const char* key, bool otherwise) const {
    const json value = value_of(key, otherwise);
    LOCKSTEP_CHECK(value.is_boolean(),
                   DataError,
                   "{}: {} is {}, expected true or false",
                   file_,
                   key,
                   value.dump());
    return value.get<bool>();
  }
  /// Throws DataError unless the value is `expected`, the only one that gpt can be.
  void require(const char* key, const json& expected, const json& otherwise) const {
    const json value = value_of(key, otherwise);
    if (value != expected)
      throw DataError(
          fmt::format("{}: {} is {}; gpt has {} only", file_, key, value.dump(), expected.dump()));
  }
  json value_of(const char* key, const json& otherwise) const {
    const auto found = config_.find(key);
    return found == config_.end() || found->is_null() ? otherwise : *found;
  }

 private:
  std::string file_;
  json config_;
};

/// As --gelu spells what Hugging Face's names mean.
std::string gelu_of(const HuggingFaceConfig& config) {
  const json name = config.value_of("activation_function", "gelu_new");
  if (name == "gelu") return "erf";
  for (const char* same : {"gelu_new", "gelu_fast", "gelu_pytorch_tanh"})
    if (name == same) return "tanh";
  throw DataError(
      fmt::format("{}: activation_function is {}; gpt has gelu, gelu_new, gelu_fast and "
                  "gelu_pytorch_tanh",
                  config.file(),
                  name.dump()));
}

void require_gpt2(const HuggingFaceConfig& config) {
  if (const json type = config.value_of("model_type", nullptr); type != "gpt2")
    throw DataError(
        fmt::format("{}: model_type is {}, expected \"gpt2\"", config.file(), type.dump()),
        "of other models, name the file with the weights: --init DIR/model.safetensors "
        "--model NAME");
  config.require("n_inner", 4 * config.size("n_embd", 768), 4 * config.size("n_embd", 768));
  config.require("layer_norm_epsilon", 1e-5, 1e-5);
  config.require("scale_attn_weights", true, true);
  config.require("scale_attn_by_inverse_layer_idx", false, false);
  config.require("add_cross_attention", false, false);
}

/// Sets flags that were not given, and refuses those that were given and differ.
class FolderFlags {
 public:
  FolderFlags(const CLI::App& app, std::string file) : app_(app), file_(std::move(file)) {}

  template <typename Value>
  void set(const char* flag, Value& raw, const Value& value, const std::string& key) const {
    if (app_.count(flag) > 0 && raw != value)
      throw ConfigError(
          fmt::format("{} {} contradicts {}, where {} is {}", flag, raw, file_, key, value),
          fmt::format("leave {} out, or --init names the file with the weights", flag));
    raw = value;
  }

 private:
  const CLI::App& app_;
  std::string file_;
};

/// A preset has its sizes already; it takes samples that are shorter than its context.
void expect_preset(const CommandLineArguments& raw,
                   const CommandLineArguments& folder,
                   const std::string& file) {
  nn::ModelSpec preset;
  preset.name = raw.model;
  nn::apply_gpt2_preset(preset);
  const bool same = preset.layers == folder.layers && preset.heads == folder.heads &&
                    preset.width == folder.width && preset.context == folder.context &&
                    preset.bias == (folder.bias == "on") &&
                    preset.tied_head == (folder.tied_head == "on") &&
                    ops::name_of(preset.gelu) == folder.gelu;
  LOCKSTEP_CHECK(same,
                 ConfigError,
                 "--model {} contradicts {}: a gpt of {} layers, {} heads, width {}, {} positions, "
                 "tied head {}, gelu {}",
                 raw.model,
                 file,
                 folder.layers,
                 folder.heads,
                 folder.width,
                 folder.context,
                 folder.tied_head,
                 folder.gelu);
}

/// The smallest of GPT-2's presets that is as wide: rates fall with the width.
std::string preset_of_width(std::int64_t width) {
  std::string preset;
  for (const std::string_view name : nn::model_names()) {
    if (!nn::is_gpt2_preset(name)) continue;
    preset = name;
    nn::ModelSpec spec;
    spec.name = preset;
    nn::apply_gpt2_preset(spec);
    if (spec.width >= width) break;
  }
  return preset;
}

}  // namespace

void take_init_folder(const CLI::App& app, CommandLineArguments& raw) {
  std::error_code ignored;
  const fs::path folder = raw.init;
  if (raw.init.empty() || !fs::is_directory(folder, ignored) ||
      !fs::exists(folder / "config.json", ignored))
    return;
  const HuggingFaceConfig config((folder / "config.json").string());
  require_gpt2(config);
  const FolderFlags flags(app, config.file());
  CommandLineArguments of_folder;
  of_folder.layers = config.size("n_layer", 12);
  of_folder.heads = config.size("n_head", 12);
  of_folder.width = config.size("n_embd", 768);
  of_folder.context = config.size("n_positions", 1024);
  of_folder.tied_head = config.flag("tie_word_embeddings", true) ? "on" : "off";
  of_folder.gelu = gelu_of(config);
  if (!raw.data.starts_with("text:"))  // whose vocabulary is its characters
    flags.set("--vocabulary", raw.vocabulary, config.size("vocab_size", 50257), "vocab_size");
  if (app.count("--model") > 0 && nn::is_gpt2_preset(raw.model))
    return expect_preset(raw, of_folder, config.file());
  if (app.count("--model") > 0 && raw.model != "gpt")
    throw ConfigError(
        fmt::format(
            "--model {} contradicts {}, whose model_type is gpt2", raw.model, config.file()),
        "leave --model out: it is gpt");
  raw.model = "gpt";
  raw.recipe = preset_of_width(of_folder.width);  // gpt's own is for characters
  flags.set("--layers", raw.layers, of_folder.layers, "n_layer");
  flags.set("--heads", raw.heads, of_folder.heads, "n_head");
  flags.set("--width", raw.width, of_folder.width, "n_embd");
  flags.set("--context", raw.context, of_folder.context, "n_positions");
  flags.set("--bias", raw.bias, of_folder.bias, "every bias");
  flags.set("--tied-head", raw.tied_head, of_folder.tied_head, "tie_word_embeddings");
  flags.set("--gelu", raw.gelu, of_folder.gelu, "activation_function");
}

}  // namespace lockstep
