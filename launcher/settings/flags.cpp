// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/flags.h"

#include "launcher/settings/command_line.h"
#include "launcher/settings/config_file.h"
#include "launcher/settings/init/init_folder.h"
#include "launcher/settings/placeholder_data.h"
#include "launcher/settings/read_settings.h"
#include "launcher/settings/resume_target.h"

namespace lockstep {
namespace {

TrainFlags parse(const std::vector<std::string>& arguments,
                 const PlaceholderData* placeholder,
                 ConfigSource source) {
  CLI::App app("Trains a model of the zoo on a data source, on one or many ranks.",
               "lockstep train");
  std::string config;
  app.add_option("--config", config, "TOML file of these flags; the command line wins")
      ->type_name("FILE")
      ->take_last();
  declare_settings(app);
  const std::string help = parse_with_own_policies(app, arguments, "lists all flags");
  if (!help.empty()) {
    TrainFlags result;
    result.help = help;
    return result;
  }
  GivenSettings given = typed_settings(app);
  std::string settings_from, data_of_file;
  if (app.count("--config") == 0) {
    config = settings_from = config_of_run(given.text("resume"), given.text("out"));
    source = ConfigSource::resumed_run;
  }
  if (!config.empty()) data_of_file = read_config_file(config, source, app, given);
  const GivenSettings::Value* const init = given.find("init");
  // A run's own sizes are in its file.
  const bool of_run =
      init != nullptr && init->source == SettingSource::file && source != ConfigSource::typed;
  if (!of_run) take_init_folder(given);
  if (placeholder != nullptr) choose_placeholder(*placeholder, given);
  TrainFlags flags = read_settings(given, data_of_file);
  flags.settings_from = settings_from;
  return flags;
}

}  // namespace

TrainFlags parse_train_flags(const std::vector<std::string>& arguments,
                             const PlaceholderData* placeholder) {
  return parse(arguments, placeholder, ConfigSource::typed);
}

TrainFlags parse_saved_flags(const std::string& config, const std::vector<std::string>& typed) {
  std::vector<std::string> arguments{"--config", config};
  arguments.insert(arguments.end(), typed.begin(), typed.end());
  return parse(arguments, nullptr, ConfigSource::saved_run);
}

}  // namespace lockstep
