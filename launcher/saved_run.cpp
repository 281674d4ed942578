// SPDX-License-Identifier: Apache-2.0
#include "launcher/saved_run.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.h"
#include "core/data/input_file.h"
#include "core/io/strict_json.h"
#include "launcher/error_meeting.h"
#include "launcher/saved_weights.h"
#include "parallel/batch_plan.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

void read_classes(const fs::path& file, SavedRun& run) {
  std::error_code error;
  if (!fs::exists(file, error))
    throw EnvironmentError(fmt::format("{}: no such file", file.string()));
  constexpr int kMaxDepth = 2;
  const auto json =
      io::parse_strict_json(data::read_text_file(file.string(), ""), file.string(), kMaxDepth);
  try {
    const auto& classes = json.at("classes");
    LOCKSTEP_CHECK(classes.is_number_unsigned() && classes.get<std::uint64_t>() <= INT32_MAX,
                   DataError,
                   "{}: 'classes' must be a whole number, got {}",
                   file.string(),
                   classes.dump());
    run.classes = classes.get<int>();
    run.names = json.at("names").get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception& wrong) {
    throw DataError(fmt::format("{}: {}", file.string(), wrong.what()));
  }
}

}  // namespace

SavedRun open_saved_run(CLI::App& app, const std::vector<std::string>& arguments) {
  std::string folder;
  app.get_formatter()->column_width(34);
  app.add_option("--from", folder, "folder of a run, or of a checkpoint")->type_name("DIR");
  app.allow_extras();
  app.footer(
      "Flags of lockstep train about data and precision (--data, --micro-batch, --precision, ...) "
      "overrule those of the run.");
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help() << std::flush;
    return {};
  } catch (const CLI::Error& error) {
    throw ConfigError(error.what(), app.get_name() + " --help lists its flags");
  }
  LOCKSTEP_CHECK(!folder.empty(), ConfigError, "{} needs --from DIR", app.get_name());
  const SavedWeights saved = find_weights(folder);
  const fs::path path = saved.folder;
  SavedRun run;
  run.weights = saved.file().string();
  read_classes(path / "classes.json", run);
  std::vector<std::string> flags = app.remaining();
  for (const std::string& flag : flags)
    for (const std::string_view refused : {"--init",
                                           "--freeze",
                                           "--ranks",
                                           "--profile",
                                           "--steps",
                                           "--epochs",
                                           "--out",
                                           "--lr",
                                           "--model",
                                           "--optimizer",
                                           "--force",
                                           "--config"})
      LOCKSTEP_CHECK(flag != refused && !flag.starts_with(std::string(refused) + "=") &&
                         !(refused == "--init" && flag.starts_with("--init-skip")),
                     ConfigError,
                     "{} has no meaning with {}: the run's model is taken as it is",
                     flag,
                     app.get_name());
  const bool names_device = std::ranges::any_of(
      flags, [](const std::string& flag) { return flag.starts_with("--device"); });
  flags.insert(flags.begin(), {"--config", (path / "config.toml").string()});
  run.flags = parse_train_flags(flags);
  if (run.flags.measures_micro_batch)
    run.flags.options.micro_batch = default_micro_batch(run.flags.options.global_batch);
  if (names_device) run.device = run.flags.device;
  return run;
}

void check_classes(const SavedRun& run, const data::Dataset& data) {
  LOCKSTEP_CHECK(run.classes == data.spec().classes,
                 ConfigError,
                 "--data has {} classes, the run was trained on {}",
                 data.spec().classes,
                 run.classes);
  const std::vector<std::string> names = data.class_names();
  for (std::size_t i = 0; i < std::min(names.size(), run.names.size()); ++i)
    LOCKSTEP_CHECK(names[i] == run.names[i],
                   ConfigError,
                   "--data calls class {} '{}', the run was trained with '{}' there",
                   i,
                   names[i],
                   run.names[i]);
}

void warn_of_slow_operators(const Backend& backend) {
  for (const std::string& notice : backend.notices()) print_warning(notice, 0);
}

std::string classes_json(const data::Dataset& dataset) {
  const nlohmann::json json{{"classes", dataset.spec().classes}, {"names", dataset.class_names()}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

ModelFunction model_of(const SavedRun& run, const data::SampleSpec& spec) {
  nn::ModelSpec model = run.flags.model;
  model.outputs = spec.classes > 0 ? spec.classes : spec.target.elems();
  return nn::make_model(model);
}

}  // namespace lockstep
