// SPDX-License-Identifier: Apache-2.0
#include "launcher/flags.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "core/base/error.h"
#include "core/base/suggest.h"
#include "launcher/raw_flags.h"

namespace lockstep {
namespace {

constexpr std::string_view kLengthFlags[] = {"--epochs", "--steps", "--samples"};

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

/// CLI11's TOML reader, which ignores keys that it does not know.
class CheckedToml final : public CLI::ConfigTOML {
 public:
  CheckedToml(const CLI::App& app, bool ignore_length) : app_(app), ignore_length_(ignore_length) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> entries = CLI::ConfigTOML::from_config(input);
    for (const CLI::ConfigItem& entry : entries) {
      const std::string key = entry.fullname();
      if (key == "config" || app_.get_option_no_throw("--" + key) == nullptr)
        unknown_name(app_, key, " in the --config file");
    }
    if (ignore_length_) {
      std::erase_if(entries, [](const CLI::ConfigItem& entry) {
        return std::find(std::begin(kLengthFlags), std::end(kLengthFlags), "--" + entry.name) !=
               std::end(kLengthFlags);
      });
    }
    return entries;
  }

 private:
  const CLI::App& app_;
  bool ignore_length_;
};

bool gives_length(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const std::string& argument) {
    const std::string name = argument.substr(0, argument.find('='));
    return std::find(std::begin(kLengthFlags), std::end(kLengthFlags), name) !=
           std::end(kLengthFlags);
  });
}

std::string check_config_file(const std::string& file) {
  std::error_code ignored;
  LOCKSTEP_CHECK(
      std::filesystem::exists(file, ignored), ConfigError, "--config {}: no such file", file);
  LOCKSTEP_CHECK(std::filesystem::is_regular_file(file, ignored) && std::ifstream(file).good(),
                 ConfigError,
                 "--config {}: not a readable file",
                 file);
  return {};
}

[[noreturn]] void unexpected_arguments(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining();
  const std::string first = rest.empty() ? std::string() : rest.front();
  if (first.starts_with("--") && first.size() > 2) unknown_name(app, first.substr(2), "");
  if (first.starts_with("-") && first.size() > 2)
    unknown_name(app, first.substr(1, first.find('=') - 1), "");
  throw ConfigError(fmt::format("unexpected argument '{}'", first),
                    "flags have the form --name value or --name=value");
}

}  // namespace

TrainFlags parse_train_flags(const std::vector<std::string>& arguments) {
  CLI::App app("Trains a model of the zoo on a data source, on one or many ranks.",
               "lockstep train");
  app.get_formatter()->column_width(34);
  RawFlags raw;
  declare_flags(app, raw);
  app.set_config("--config", "", "TOML file of these flags; the command line wins")
      ->type_name("FILE")
      ->check(CLI::Validator([](std::string& file) { return check_config_file(file); }, ""));
  app.config_formatter(std::make_shared<CheckedToml>(app, gives_length(arguments)));
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
  return resolve_flags(app, raw);
}

}  // namespace lockstep
