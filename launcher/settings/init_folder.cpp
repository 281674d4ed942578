// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/init_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/data/input_file.h"
#include "core/io/strict_json.h"
#include "core/nn/gpt.h"
#include "launcher/settings/flag_values.h"
#include "lockstep/zoo.h"

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

/// A setting that config.json decides, and its key there.
struct OfFolder {
  const char* name;
  std::string text;
  const char* key;
};

std::vector<OfFolder> settings_of(const HuggingFaceConfig& config) {
  return {
      {"layers", std::to_string(config.size("n_layer", 12)), "n_layer"},
      {"heads", std::to_string(config.size("n_head", 12)), "n_head"},
      {"width", std::to_string(config.size("n_embd", 768)), "n_embd"},
      {"context", std::to_string(config.size("n_positions", 1024)), "n_positions"},
      {"bias", "on", "every bias"},
      {"tied-head", config.flag("tie_word_embeddings", true) ? "on" : "off", "tie_word_embeddings"},
      {"gelu", gelu_of(config), "activation_function"}};
}

/// Derives a setting that was not given, and refuses one that was given and differs.
void derive(const OfFolder& setting, const std::string& file, GivenSettings& given) {
  const std::string text = given.text(setting.name, setting.text);
  const bool same = is_number(setting.text) ? to_whole_number(text) == to_whole_number(setting.text)
                                            : text == setting.text;
  if (!same)
    throw ConfigError(
        fmt::format("--{} {} contradicts {}, where {} is {}",
                    setting.name,
                    as_written(text),
                    as_written(file),
                    setting.key,
                    setting.text),
        fmt::format("leave --{} out, or --init names the file with the weights", setting.name));
  if (!given.has(setting.name)) given.set(setting.name, {setting.text}, SettingSource::derived);
}

/// A preset has its sizes already; it takes samples that are shorter than its context.
void expect_preset(const std::string& model,
                   const std::vector<OfFolder>& of_folder,
                   const std::string& file) {
  TrainFlags preset, folder;
  preset.model.name = folder.model.name = model;
  nn::apply_gpt2_preset(preset.model);
  for (const OfFolder& setting : of_folder) find_setting(setting.name)->set(folder, {setting.text});
  folder.model.context = folder.context;
  const nn::ModelSpec& a = preset.model;
  const nn::ModelSpec& b = folder.model;
  const bool same = a.layers == b.layers && a.heads == b.heads && a.width == b.width &&
                    a.context == b.context && a.bias == b.bias && a.tied_head == b.tied_head &&
                    a.gelu == b.gelu;
  LOCKSTEP_CHECK(same,
                 ConfigError,
                 "--model {} contradicts {}: a gpt of {} layers, {} heads, width {}, {} positions, "
                 "tied head {}, gelu {}",
                 as_written(model),
                 as_written(file),
                 b.layers,
                 b.heads,
                 b.width,
                 b.context,
                 b.tied_head ? "on" : "off",
                 ops::name_of(b.gelu));
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

void take_init_folder(GivenSettings& given) {
  std::error_code ignored;
  const fs::path folder = given.text("init");
  if (folder.empty() || !fs::is_directory(folder, ignored) ||
      !fs::exists(folder / "config.json", ignored))
    return;
  const HuggingFaceConfig config((folder / "config.json").string());
  require_gpt2(config);
  const std::vector<OfFolder> settings = settings_of(config);
  if (!given.text("data").starts_with("text:"))  // whose vocabulary is its characters
    derive({"vocabulary", std::to_string(config.size("vocab_size", 50257)), "vocab_size"},
           config.file(),
           given);
  const std::string model = given.text("model", "gpt");
  if (nn::is_gpt2_preset(model)) return expect_preset(model, settings, config.file());
  if (model != "gpt")
    throw ConfigError(
        fmt::format("--model {} contradicts {}, whose model_type is gpt2", model, config.file()),
        "leave --model out: it is gpt");
  if (!given.has("model")) given.set("model", {"gpt"}, SettingSource::derived);
  given.recipe =  // gpt's own is for characters
      preset_of_width(to_whole_number(settings[2].text));
  for (const OfFolder& setting : settings) derive(setting, config.file(), given);
}

}  // namespace lockstep
