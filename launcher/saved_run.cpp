// SPDX-License-Identifier: Apache-2.0
#include "launcher/saved_run.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.h"
#include "core/data/image_folder.h"
#include "core/data/input_file.h"
#include "core/io/preprocessing_file.h"
#include "core/io/strict_json.h"
#include "launcher/command_line.h"
#include "launcher/error_meeting.h"
#include "launcher/open_data.h"
#include "launcher/predict/fields.h"
#include "launcher/saved_weights.h"
#include "launcher/split_arguments.h"
#include "parallel/batch_plan.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxWarning = 1000;  // characters of what a file says

bool is_there(const fs::path& file) {
  std::error_code error;
  return fs::exists(file, error);
}

/// The names that a version without records kept.
std::vector<std::string> old_class_names(const fs::path& file) {
  constexpr int kMaxDepth = 2;
  const auto json =
      io::parse_strict_json(data::read_text_file(file.string(), ""), file.string(), kMaxDepth);
  try {
    return json.at("names").get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception& wrong) {
    throw DataError(fmt::format("{}: {}", file.string(), wrong.what()));
  }
}

/// The record of a run in `folder` whose flags are `own`.
data::Preprocessing find_record(const fs::path& folder, const TrainFlags& own) {
  if (const fs::path file = folder / io::kPreprocessingFile; is_there(file))
    return io::read_preprocessing(file.string());
  const fs::path classes = folder / "classes.json";
  if (!is_there(classes))
    throw EnvironmentError(
        fmt::format("{}: no such file", (folder / io::kPreprocessingFile).string()),
        "it says how the model's samples are made; copy it with the weights");
  data::Preprocessing record = open_data(own).train->preprocessing();
  LOCKSTEP_CHECK(record.class_names == old_class_names(classes),
                 DataError,
                 "{}: the run was made by a version that kept no preprocessing record, and the "
                 "classes of its data, {}, are others now",
                 folder.string(),
                 own.data);
  return record;
}

bool typed(const std::vector<std::string>& flags, std::string_view name) {
  return std::ranges::any_of(flags, [&](const std::string& flag) {
    return flag == name || flag.starts_with(std::string(name) + "=");
  });
}

/// Flags of train that mean nothing once a model is trained; `fixed` are more of them.
void refuse_training(const std::vector<std::string>& flags,
                     const std::string& command,
                     std::initializer_list<std::string_view> fixed) {
  const auto refuse = [&](std::string_view refused) {
    LOCKSTEP_CHECK(!typed(flags, refused),
                   ConfigError,
                   "{} has no meaning with {}: the model is taken as it is",
                   refused,
                   command);
  };
  for (const std::string_view refused : {"--init-skip",
                                         "--freeze",
                                         "--ranks",
                                         "--profile",
                                         "--steps",
                                         "--epochs",
                                         "--out",
                                         "--lr",
                                         "--optimizer",
                                         "--force",
                                         "--config"})
    refuse(refused);
  for (const std::string_view refused : fixed) refuse(refused);
}

SavedRun open_run(const std::string& folder,
                  std::vector<std::string> flags,
                  const std::string& command) {
  const SavedWeights saved = find_weights(folder);
  const fs::path path = saved.folder;
  SavedRun run;
  run.weights = saved.file().string();
  refuse_training(
      flags,
      command,
      {"--init", "--model", "--task", "--label-column", "--drop", "--id-column", "--categorical"});
  const std::string config = (path / "config.toml").string();
  run.trained = find_record(path, parse_saved_flags(config, {}));
  const bool names_device = typed(flags, "--device");
  run.names_data = typed(flags, "--data");
  const bool all_of_data = run.names_data && !typed(flags, "--val-fraction");
  run.flags = parse_saved_flags(config, flags);
  if (all_of_data) run.flags.val_fraction = 1;
  if (names_device) run.device = run.flags.device;
  return run;
}

/// The record of data that nothing was trained on: their training part's, where they have one.
data::Preprocessing record_of(TrainFlags flags, bool has_fraction) {
  constexpr std::string_view kImages = "images:";
  if (!has_fraction || flags.val_fraction == 1) flags.val_fraction = 0;
  if (flags.data.starts_with(kImages)) {
    const std::string folder = flags.data.substr(kImages.size());
    std::error_code error;
    if (!fs::is_directory(fs::path(folder) / "train", error) && data::has_validation_folder(folder))
      flags.data = std::string(kImages) + data::scan_validation_folder(folder)->root;
  }
  return open_data(flags).train->preprocessing();
}

SavedRun open_weights_file(const std::vector<std::string>& flags, const std::string& command) {
  std::error_code error;
  refuse_training(flags, command, {});
  SavedRun run;
  run.flags = parse_train_flags(flags);
  for (const char* needed : {"--model", "--data"})
    if (!typed(flags, needed) && !fs::is_directory(run.flags.options.init, error))
      throw ConfigError(
          fmt::format("{} of --init {} needs {}", command, run.flags.options.init, needed),
          command + " --init FILE --model NAME --data SOURCE");
  const bool has_fraction = typed(flags, "--val-fraction");
  run.weights = run.flags.options.init;
  run.trained = record_of(run.flags, has_fraction);
  run.names_data = true;
  run.is_trained_here = false;
  if (!has_fraction) run.flags.val_fraction = 1;
  run.device = run.flags.device;
  return run;
}

}  // namespace

SavedRun open_saved_run(CLI::App& app,
                        const std::vector<std::string>& arguments,
                        WeightsFile file) {
  std::string folder;
  app.add_option("--from", folder, "folder of a run, or of a checkpoint")->type_name("DIR");
  app.footer(
      "Flags of lockstep train about data and precision (--data, --micro-batch, --precision, ...) "
      "overrule those of the run.");
  const SplitArguments split = split_arguments(app, arguments);
  if (print_help(parse_command_line(app, split.own, "lists its flags"))) return {};
  const bool from_file =
      folder.empty() && file == WeightsFile::allowed && typed(split.train, "--init");
  LOCKSTEP_CHECK(!folder.empty() || from_file, ConfigError, "{} needs --from DIR", app.get_name());
  SavedRun run = from_file ? open_weights_file(split.train, app.get_name())
                           : open_run(folder, split.train, app.get_name());
  if (run.flags.measures_micro_batch)
    run.flags.options.micro_batch = default_micro_batch(run.flags.options.global_batch);
  return run;
}

std::shared_ptr<const data::Dataset> open_labelled(const SavedRun& run) {
  const data::DataSplit data = open_data(run.flags, &run.trained);
  LOCKSTEP_CHECK(data.validation != nullptr && data.validation->size() > 0,
                 ConfigError,
                 "--data {} has no validation part; --val-fraction makes one",
                 run.flags.data);
  return data.validation;
}

void warn_of_slow_operators(const Backend& backend) {
  for (const std::string& notice : backend.notices()) print_warning(notice, 0);
}

void warn_of_skipped(const data::Dataset& data) {
  const data::SkippedRecords skipped = data.skipped_records();
  for (const std::string& what : skipped.first)
    print_warning(fmt::format("skipped: {}", shown(what, kMaxWarning)), 0);
  if (const std::int64_t more = skipped.count - std::ssize(skipped.first); more > 0)
    print_warning(fmt::format("skipped: {} more", more), 0);
}

ModelFunction model_of(const SavedRun& run, const data::SampleSpec& spec) {
  nn::ModelSpec model = run.flags.model;
  model.outputs = spec.classes > 0 ? spec.classes : spec.target.elems();
  return nn::make_model(model);
}

}  // namespace lockstep
