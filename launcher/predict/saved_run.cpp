// SPDX-License-Identifier: Apache-2.0
#include "launcher/predict/saved_run.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "core/base/check.h"
#include "core/base/file_kind.h"
#include "core/base/parameter_names.h"
#include "core/base/text/printable.h"
#include "core/data/images/image_folder.h"
#include "core/data/images/image_samples.h"
#include "core/data/input_file.h"
#include "core/io/checkpoint/checkpoint.h"
#include "core/io/checkpoint/checkpoint_names.h"
#include "core/io/checkpoint/checkpoint_state.h"
#include "core/io/strict_json.h"
#include "core/nn/trace.h"
#include "launcher/predict/saved_weights.h"
#include "launcher/predict/split_arguments.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/flags.h"
#include "launcher/settings/open_data.h"
#include "lockstep/data/preprocessing_file.h"
#include "lockstep/zoo.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/comm/collective_strings.h"
#include "parallel/comm/error_serialization.h"
#include "parallel/session/error_report.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxWarning = 1000;  // bytes of what a file says

/// The names that a version without records kept.
std::vector<std::string> old_class_names(const fs::path& file) {
  constexpr int kMaxDepth = 2;
  const auto json =
      io::parse_strict_json(data::read_text_file(file.string(), ""), file.string(), kMaxDepth);
  try {
    return json.at("names").get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception& wrong) {
    throw DataError(fmt::format("{}: {}", as_written(file.string()), as_written(wrong.what())));
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

constexpr std::string_view kSeed = "--seed";

/// Flags of train that mean nothing once a model is trained.
constexpr std::string_view kOfTraining[] = {"--init-skip",
                                            "--freeze",
                                            "--ranks",
                                            "--profile",
                                            "--steps",
                                            "--epochs",
                                            "--out",
                                            "--samples",
                                            "--lr",
                                            "--optimizer",
                                            "--group",
                                            "--layer-decay",
                                            "--force",
                                            "--config",
                                            "--resume",
                                            "--resume-override"};

/// What is fixed where a run says what the model is and how its samples are made.
constexpr std::string_view kOfTheModel[] = {
    "--init",     "--model",      "--hidden",       "--stem",       "--layers",   "--heads",
    "--width",    "--bias",       "--tied-head",    "--gelu",       "--kv-heads", "--mlp-width",
    "--norm-eps", "--rope-theta", "--rope-scaling", "--image-size", "--task",     "--label-column",
    "--drop",     "--id-column",  "--categorical",  "--tokenizer"};

void refuse(const std::vector<std::string>& flags,
            const std::string& command,
            std::span<const std::string_view> refused) {
  for (const std::string_view flag : refused)
    LOCKSTEP_CHECK(!typed(flags, flag),
                   ConfigError,
                   "{} cannot be combined with {}: the model is taken as it is",
                   flag,
                   command);
}

void refuse_other_model(const std::vector<std::string>& flags, const std::string& command) {
  refuse(flags, command, kOfTraining);
  refuse(flags, command, kOfTheModel);
  LOCKSTEP_CHECK(!typed(flags, kSeed),
                 ConfigError,
                 "--seed cannot be combined with {} --from: the run's own seed has chosen its "
                 "validation part, and another would choose training samples as well",
                 command);
}

/// "validation data content" in the settings of the newest checkpoint; empty: there is none.
std::string validation_content(const fs::path& folder) {
  try {
    fs::path checkpoint = folder;
    if (!is_there(folder / io::kManifestFile)) {
      const std::vector<std::int64_t> steps = io::steps_in(folder / "checkpoints");
      if (steps.empty()) return {};
      checkpoint = folder / "checkpoints" / io::checkpoint_name(steps.back());
    }
    const std::string file = (checkpoint / io::kStateFile).string();
    const io::CheckpointState state = io::parse_state(file, data::read_text_file(file, ""));
    for (const auto& [key, value] : state.settings)
      if (key == "validation data content") return value;
  } catch (const Error&) {
    // Whoever wants the checkpoint itself says what is wrong with it.
  }
  return {};
}

std::vector<std::string> sources_of(const TrainFlags& flags) {
  std::vector<std::string> all{flags.data};
  all.insert(all.end(), flags.more_data.begin(), flags.more_data.end());
  return all;
}

/// `own` as if its sources had been those.
TrainFlags with_sources(TrainFlags own, const std::vector<std::string>& sources) {
  own.data = sources.front();
  own.more_data.assign(sources.begin() + 1, sources.end());
  return own;
}

bool are_same_kinds(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::ranges::equal(a, b, {}, source_kind, source_kind);
}

/// With the --data of `run.flags`, which came without --val-fraction.
void take_all_unless_own(SavedRun& run, TrainFlags own, const fs::path& folder) {
  run.flags.val_fraction = 1;
  own.balance_classes = false;
  const std::vector<std::string> recorded = sources_of(own), typed = sources_of(run.flags);
  if (typed.size() == recorded.size()) {
    if (are_same_kinds(typed, recorded)) run.with_other_data.push_back(with_sources(own, typed));
  } else {
    for (const std::string& source : typed)
      for (std::size_t i = 0; i < recorded.size(); ++i) {
        std::vector<std::string> sources = recorded;
        sources[i] = source;
        if (are_same_kinds(sources, recorded))
          run.with_other_data.push_back(with_sources(own, sources));
      }
  }
  if (!run.with_other_data.empty()) run.validation_content = validation_content(folder);
}

/// Of the run or checkpoint `folder`.
SavedRun open_run(const fs::path& folder,
                  const std::vector<std::string>& flags,
                  const std::string& command,
                  bool average) {
  SavedRun run;
  const SavedWeights weights{folder};
  run.weights = (average ? weights.average() : weights.file()).string();
  refuse_other_model(flags, command);
  const std::string config = (folder / "config.toml").string();
  const TrainFlags own = parse_saved_flags(config, {});
  run.trained = find_record(folder, own);
  run.flags = parse_saved_flags(config, flags);
  run.flags.model.context = own.model.context;
  LOCKSTEP_CHECK(run.flags.context <= own.model.context,
                 ConfigError,
                 "--context {} is longer than the {} positions of the run's model",
                 run.flags.context,
                 own.model.context);
  run.names_data = typed(flags, "--data");
  if (run.names_data && !typed(flags, "--val-fraction")) take_all_unless_own(run, own, folder);
  if (typed(flags, "--device")) run.device = run.flags.device;
  return run;
}

/// The record of data that nothing was trained on: their training part's, where they have one.
data::Preprocessing record_of(TrainFlags flags, bool has_fraction) {
  constexpr std::string_view kImages = "images:";
  if (!has_fraction || flags.val_fraction == 1) flags.val_fraction = 0;
  if (flags.data.starts_with(kImages)) {
    const std::string folder = flags.data.substr(kImages.size());
    if (!is_folder(fs::path(folder) / "train") && data::has_validation_folder(folder))
      flags.data = std::string(kImages) + data::scan_validation_folder(folder)->root;
  }
  return open_data(flags).train->preprocessing();
}

SavedRun open_weights_file(const std::vector<std::string>& flags, const std::string& command) {
  std::error_code error;
  refuse(flags, command, kOfTraining);
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

/// Images of --eval-image-size in place of those of the run's size.
void take_image_size(SavedRun& run) {
  run.recorded = run.trained;
  run.trained = data::resized(run.trained, run.flags.eval_image_size);
  const data::SampleSpec& trained = run.recorded->samples;
  if (run.trained.samples.input != trained.input)
    expect_same_parameters(
        model_of(run, trained), trained, run.trained.samples, "`eval_image_size`");
}

SavedRun open_found(const SavedRunRequest& request, const fs::path& folder) {
  SavedRun run = request.from.empty()
                     ? open_weights_file(request.flags, request.command)
                     : open_run(folder, request.flags, request.command, request.average);
  run.flags.balance_classes = false;  // of training alone
  if (run.flags.eval_image_size > 0) take_image_size(run);
  if (run.flags.measures_micro_batch)
    run.flags.options.micro_batch = default_micro_batch(run.flags.options.global_batch);
  return run;
}

/// The checkpoint that rank 0 finds below `from`, as a path from there.
std::string find_together(Job& job, const fs::path& from) {
  const auto look = [&] {
    try {
      const std::string found = find_weights(from).folder.lexically_relative(from).string();
      return serialized_error_text(nlohmann::json{{"below", found}});
    } catch (...) {
      return serialized_error_text(serialize_error(std::current_exception()));
    }
  };
  const nlohmann::json found = nlohmann::json::parse(
      broadcast_string(job.host_communicator(), job.rank() == 0 ? look() : std::string()));
  if (found.contains("error")) throw_serialized_error(found);
  return found["below"].get<std::string>();
}

}  // namespace

std::vector<std::string_view> refused_train_flags(WeightsFile file) {
  std::vector<std::string_view> flags(std::begin(kOfTraining), std::end(kOfTraining));
  if (file == WeightsFile::allowed) return flags;
  flags.insert(flags.end(), std::begin(kOfTheModel), std::end(kOfTheModel));
  flags.push_back(kSeed);
  return flags;
}

SavedRunRequest parse_saved_run(CLI::App& app,
                                const std::vector<std::string>& arguments,
                                WeightsFile file) {
  std::string folder;
  app.add_option("--from", folder, "folder of a run, or of a checkpoint")->type_name("DIR");
  bool average = false;
  app.add_flag(
      "--ema", average, "the average of the weights, of a run with --ema, in place of them");
  app.footer(
      "Flags of lockstep train about data and precision (--data, --micro-batch, --precision, ...) "
      "overrule those of the run.");
  const SplitArguments split = split_arguments(app, arguments);
  app.allow_extras();  // declares that flags of train are taken, for completion
  if (print_help(parse_command_line(app, split.own, "lists its flags"))) return {.help = true};
  const bool from_file =
      folder.empty() && file == WeightsFile::allowed && typed(split.train, "--init");
  LOCKSTEP_CHECK(!folder.empty() || from_file, ConfigError, "{} needs --from DIR", app.get_name());
  LOCKSTEP_CHECK(!average || !folder.empty(), ConfigError, "--ema belongs to --from DIR");
  return {.command = app.get_name(), .from = folder, .flags = split.train, .average = average};
}

WatchLimits watch_limits(const SavedRunRequest& request) {
  try {
    if (request.from.empty()) return parse_train_flags(request.flags).watch;
    return parse_saved_flags((fs::path(request.from) / "config.toml").string(), request.flags)
        .watch;
  } catch (const Error&) {
    return {};  // said where the run is opened
  }
}

SavedRun open_saved_run(Job& job, const SavedRunRequest& request) {
  if (request.from.empty()) return open_found(request, {});
  const fs::path from = request.from;
  const std::string below = find_together(job, from);
  return open_found(request, below == "." ? from : from / below);
}

SavedRun open_saved_run(CLI::App& app,
                        const std::vector<std::string>& arguments,
                        WeightsFile file) {
  const SavedRunRequest request = parse_saved_run(app, arguments, file);
  if (request.help) return {};
  return open_found(request, request.from.empty() ? fs::path() : find_weights(request.from).folder);
}

void warn_of_slow_operators(const Backend& backend) {
  for (const std::string& notice : backend.notices()) print_warning(notice, 0);
}

void warn_of_skipped(const data::Dataset& data) {
  const data::SkippedRecords skipped = data.skipped_records();
  for (const std::string& what : skipped.first)
    print_warning(fmt::format("skipped: {}", printable(what, kMaxWarning)), 0);
  if (const std::int64_t more = skipped.count - std::ssize(skipped.first); more > 0)
    print_warning(fmt::format("skipped: {} more", more), 0);
}

ModelFunction model_of(const SavedRun& run, const data::SampleSpec& spec) {
  nn::ModelSpec model = run.flags.model;
  model.outputs = spec.classes > 0 ? spec.classes : spec.target.elems();
  return nn::make_model(model);
}

}  // namespace lockstep
