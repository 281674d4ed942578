// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/init/init_folder.h"

#include <algorithm>
#include <filesystem>
#include <fmt/ranges.h>
#include <optional>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/nn/gpt.h"
#include "core/nn/llama.h"
#include "launcher/settings/flag_values.h"
#include "launcher/settings/init/hugging_face_config.h"
#include "lockstep/zoo.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Derives a setting that was not given, and refuses one that was given and differs.
void derive(const OfConfig& setting, const std::string& file, GivenSettings& given) {
  const std::string text = given.text(setting.name, setting.text);
  const bool numbers = is_number(setting.text) && is_number(text);
  const bool fits = !numbers          ? text == setting.text
                    : setting.at_most ? to_real_number(text) <= to_real_number(setting.text)
                                      : to_real_number(text) == to_real_number(setting.text);
  if (!fits)
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

/// The sizes of a preset of `model`, gpt or llama; nothing for other names.
std::optional<nn::ModelSpec> preset(std::string_view model, std::string_view name) {
  nn::ModelSpec spec;
  spec.name = name;
  if (model == "gpt" && nn::is_gpt2_preset(name))
    nn::apply_gpt2_preset(spec);
  else if (model == "llama" && nn::is_llama_preset(name))
    nn::apply_llama_preset(spec);
  else
    return std::nullopt;
  return spec;
}

/// A preset has its sizes already; it takes samples that are shorter than its context.
void expect_preset(const nn::ModelSpec& preset,
                   const HuggingFaceModel& config,
                   const std::string& file) {
  TrainFlags of_preset, of_folder;
  of_preset.model = of_folder.model = preset;
  of_preset.context = preset.context;
  for (const OfConfig& setting : config.settings) {
    const Setting& row = *find_setting(setting.name);
    row.set(of_folder, {setting.text});
    LOCKSTEP_CHECK(row.get(of_folder) == row.get(of_preset),
                   ConfigError,
                   "--model {} contradicts {}, where {} is {}: --{} {}",
                   as_written(preset.name),
                   as_written(file),
                   setting.key,
                   setting.text,
                   setting.name,
                   fmt::join(row.get(of_preset).value_or(Texts{}), ","));
  }
}

/// The smallest preset of `model` that is as wide: rates fall with the width.
std::string preset_of_width(std::string_view model, std::int64_t width) {
  std::string name;
  for (const std::string_view other : nn::model_names()) {
    const auto spec = preset(model, other);
    if (!spec) continue;
    name = other;
    if (spec->width >= width) break;
  }
  return name;
}

}  // namespace

void take_init_folder(GivenSettings& given) {
  std::error_code ignored;
  const fs::path folder = given.text("init");
  if (folder.empty() || !fs::is_directory(folder, ignored) ||
      !fs::exists(folder / "config.json", ignored))
    return;
  const std::string file = (folder / "config.json").string();
  const HuggingFaceModel config = read_hugging_face_config(file);
  if (!given.text("data").starts_with("text:"))  // whose vocabulary is its characters
    derive(config.vocabulary, file, given);
  const std::string model = given.text("model", config.model);
  if (const auto sizes = preset(config.model, model)) return expect_preset(*sizes, config, file);
  if (model != config.model)
    throw ConfigError(
        fmt::format("--model {} contradicts {}, whose model_type is {}", model, file, config.type),
        fmt::format("leave --model out: it is {}", config.model));
  if (!given.has("model")) given.set("model", {config.model}, SettingSource::derived);
  const auto width = std::ranges::find(config.settings,
                                       std::string_view("width"),
                                       [](const OfConfig& s) { return std::string_view(s.name); });
  // gpt's own recipe is for characters, llama's for small models.
  given.recipe = preset_of_width(config.model, to_whole_number(width->text));
  for (const OfConfig& setting : config.settings) derive(setting, file, given);
}

}  // namespace lockstep
