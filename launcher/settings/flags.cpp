// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/flags.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/file_kind.h"
#include "core/base/suggest.h"
#include "core/data/input_file.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/command_line_arguments.h"
#include "launcher/settings/flag_synonyms.h"
#include "launcher/settings/init_folder.h"
#include "launcher/settings/placeholder_data.h"
#include "launcher/settings/resume_target.h"
#include "launcher/settings/setting_precedence.h"
#include "launcher/settings/toml_reader.h"
#include "launcher/settings/working_folder.h"

namespace lockstep {
namespace {

/// The keys of a file, without those that the command line overrules.
class ConfigFile final : public CLI::ConfigBase {
 public:
  ConfigFile(const CLI::App& app, CommandLineArguments& raw) : app_(app), raw_(raw) {}

  /// Reads `file` for from_config(). Throws ConfigError where it is no configuration, and DataError
  /// where it cannot be read.
  void open(const std::string& file) {
    LOCKSTEP_CHECK(is_there(file), ConfigError, "--config {}: no such file", file);
    LOCKSTEP_CHECK(is_file(file), ConfigError, "--config {}: not a readable file", file);
    constexpr std::uint64_t kMaxBytes = 1 << 20;
    LOCKSTEP_CHECK(data::input_file_size(file, "") <= kMaxBytes,
                   ConfigError,
                   "--config {}: more than {} bytes, which is no configuration",
                   file,
                   kMaxBytes);
    text_ = data::read_text_file(file, "");
  }

  /// Of the text that open() has read: from the stream of CLI11 an error would have no name.
  std::vector<CLI::ConfigItem> from_config(std::istream& /*input*/) const override {
    std::vector<TomlEntry> entries = read_toml(text_);
    const std::string folder = take_working_folder(entries);
    const auto data = std::ranges::find(entries, "data", &TomlEntry::key);
    const std::string data_of_file = data == entries.end() ? "" : data->values.back();
    std::vector<CLI::ConfigItem> result;
    for (TomlEntry& entry : entries) {
      const std::string flag = "--" + entry.key;
      if (entry.key == "config" || entry.key == "help" || app_.get_option_no_throw(flag) == nullptr)
        unknown_key(entry.key);
      if (is_overridden(app_, flag, entry.values.back(), data_of_file)) continue;
      const bool of_weights = entry.key == "init" || entry.key == "init-skip";
      if (raw_.file == ConfigSource::saved_run && of_weights) continue;
      if (entry.key == "data") entry.values.back() = data_found_from(folder, entry.values.back());
      if (entry.key == "init") entry.values.back() = file_found_from(folder, entry.values.back());
      if (raw_.file != ConfigSource::typed) {
        raw_.ranks_from_run |= entry.key == "ranks";
        raw_.init_from_run |= entry.key == "init";
      }
      raw_.data_from_file |= entry.key == "data";
      CLI::ConfigItem item;
      item.name = entry.key;
      item.inputs = std::move(entry.values);
      result.push_back(std::move(item));
    }
    return result;
  }

 private:
  [[noreturn]] void unknown_key(const std::string& key) const {
    if (key == "config")
      throw ConfigError("the --config file has the key config, which belongs to the command line",
                        "take it out: one file has all settings");
    const std::string hint = flag_hint(app_, key, "");
    throw ConfigError(fmt::format("unknown key {} in the --config file", key),
                      hint.empty() ? "lockstep train --help lists all flags" : hint);
  }
  const CLI::App& app_;
  CommandLineArguments& raw_;
  std::string text_;
};

}  // namespace

namespace {

TrainFlags parse(const std::vector<std::string>& arguments,
                 const PlaceholderData* stand_in,
                 ConfigSource source) {
  CLI::App app("Trains a model of the zoo on a data source, on one or many ranks.",
               "lockstep train");
  CommandLineArguments raw;
  raw.file = source;
  declare_flags(app, raw);
  const auto config_file = std::make_shared<ConfigFile>(app, raw);
  app.set_config("--config", "", "TOML file of these flags; the command line wins")
      ->type_name("FILE")
      ->check(CLI::Validator(
          [config_file](std::string& file) {
            config_file->open(file);
            return std::string();
          },
          ""));
  app.config_formatter(config_file);
  const std::string help = parse_with_own_policies(app, arguments, "lists all flags");
  if (!help.empty()) {
    TrainFlags result;
    result.help = help;
    return result;
  }
  if (app.count("--config") == 0)
    if (const std::string config = config_of_run(raw.resume, raw.out); !config.empty()) {
      std::vector<std::string> with_file = arguments;
      with_file.insert(with_file.end(), {"--config", config});
      TrainFlags flags = parse(with_file, stand_in, ConfigSource::resumed_run);
      flags.settings_from = config;
      return flags;
    }
  if (!raw.init_from_run) take_init_folder(app, raw);
  if (stand_in != nullptr) choose_placeholder(app, *stand_in, raw);
  return resolve_flags(app, raw);
}

}  // namespace

TrainFlags parse_train_flags(const std::vector<std::string>& arguments,
                             const PlaceholderData* stand_in) {
  return parse(arguments, stand_in, ConfigSource::typed);
}

TrainFlags parse_saved_flags(const std::string& config, const std::vector<std::string>& typed) {
  std::vector<std::string> arguments{"--config", config};
  arguments.insert(arguments.end(), typed.begin(), typed.end());
  return parse(arguments, nullptr, ConfigSource::saved_run);
}

}  // namespace lockstep
