// SPDX-License-Identifier: Apache-2.0
#include "launcher/flags.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "core/base/error.h"
#include "core/base/suggest.h"
#include "launcher/overruled.h"
#include "launcher/raw_flags.h"
#include "launcher/stand_in_data.h"
#include "launcher/toml_reader.h"

namespace lockstep {
namespace {

[[noreturn]] void unknown_name(const CLI::App& app, const std::string& name, const char* where) {
  std::vector<std::string> owned;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& long_name : option->get_lnames()) owned.push_back(long_name);
  const std::vector<std::string_view> names(owned.begin(), owned.end());
  const std::string best = nearest(name, names);
  const bool flag = *where == '\0';
  throw ConfigError(
      fmt::format("unknown {} {}{}{}", flag ? "flag" : "key", flag ? "--" : "", name, where),
      best.empty() ? "lockstep train --help lists all flags"
                   : fmt::format("did you mean {}{}?", flag ? "--" : "", best));
}

/// The keys of a file, without those that the command line overrules.
class ConfigFile final : public CLI::ConfigBase {
 public:
  explicit ConfigFile(const CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    const std::string text{std::istreambuf_iterator<char>(input), {}};
    std::vector<CLI::ConfigItem> result;
    for (TomlEntry& entry : read_toml(text)) {
      const std::string flag = "--" + entry.key;
      if (entry.key == "config" || entry.key == "help" || app_.get_option_no_throw(flag) == nullptr)
        unknown_name(app_, entry.key, " in the --config file");
      if (overruled(app_, flag, entry.values.back())) continue;
      CLI::ConfigItem item;
      item.name = entry.key;
      item.inputs = std::move(entry.values);
      result.push_back(std::move(item));
    }
    return result;
  }

 private:
  const CLI::App& app_;
};

std::string check_config_file(const std::string& file) {
  std::error_code ignored;
  LOCKSTEP_CHECK(
      std::filesystem::exists(file, ignored), ConfigError, "--config {}: no such file", file);
  LOCKSTEP_CHECK(std::filesystem::is_regular_file(file, ignored) && std::ifstream(file).good(),
                 ConfigError,
                 "--config {}: not a readable file",
                 file);
  constexpr std::uintmax_t kMostBytes = 1 << 20;
  LOCKSTEP_CHECK(std::filesystem::file_size(file, ignored) <= kMostBytes,
                 ConfigError,
                 "--config {}: more than {} bytes, which is no configuration",
                 file,
                 kMostBytes);
  return {};
}

[[noreturn]] void unexpected_arguments(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining();
  const std::string first = rest.empty() ? std::string() : rest.front();
  if (first.starts_with("--") && first.size() > 2)
    unknown_name(app, first.substr(2, first.find('=') - 2), "");
  if (first.starts_with("-") && first.size() > 2)
    unknown_name(app, first.substr(1, first.find('=') - 1), "");
  throw ConfigError(fmt::format("unexpected argument '{}'", first),
                    "flags have the form --name value or --name=value");
}

}  // namespace

TrainFlags parse_train_flags(const std::vector<std::string>& arguments,
                             const StandInData* stand_in) {
  CLI::App app("Trains a model of the zoo on a data source, on one or many ranks.",
               "lockstep train");
  app.get_formatter()->column_width(34);
  RawFlags raw;
  declare_flags(app, raw);
  app.set_config("--config", "", "TOML file of these flags; the command line wins")
      ->type_name("FILE")
      ->check(CLI::Validator([](std::string& file) { return check_config_file(file); }, ""));
  app.config_formatter(std::make_shared<ConfigFile>(app));
  try {
    // CLI11 wants them last first.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    TrainFlags result;
    result.help = app.help();
    return result;
  } catch (const CLI::ExtrasError&) {
    unexpected_arguments(app);
  } catch (const CLI::Error& error) {
    throw ConfigError(error.what(), "lockstep train --help lists all flags");
  }
  if (stand_in != nullptr) choose_stand_in(app, *stand_in, raw);
  return resolve_flags(app, raw);
}

}  // namespace lockstep
