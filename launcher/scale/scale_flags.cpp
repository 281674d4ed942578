// SPDX-License-Identifier: Apache-2.0
#include "launcher/scale/scale_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <sstream>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "launcher/plan/network_file.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/flag_values.h"
#include "launcher/settings/flags.h"
#include "lockstep/schedule.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/batch/schedule.h"

namespace lockstep {
namespace {

constexpr int kMaxScaleRanks = 100'000;
/// Windows whose mean is logged in a run; the first one is warm-up.
constexpr std::int64_t kWindows = 6;

/// Flags of train that every run is given here.
constexpr std::string_view kTaken[] = {"--epochs",
                                       "--samples",
                                       "--resume",
                                       "--resume-override",
                                       "--accumulation",
                                       "--log-every",
                                       "--eval-every",
                                       "--checkpoint-every",
                                       "--profile"};

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  if (text.empty() || text.back() == ',') parts.emplace_back();
  return parts;
}

std::vector<Scaling> parse_modes(const std::string& text) {
  std::vector<Scaling> modes;
  for (const std::string& part : split_at_commas(text)) {
    LOCKSTEP_CHECK(part == "weak" || part == "strong",
                   ConfigError,
                   "--mode: expected weak, strong or both with a comma, got '{}'",
                   as_written(text));
    const Scaling mode = part == "weak" ? Scaling::weak : Scaling::strong;
    if (std::ranges::find(modes, mode) == modes.end()) modes.push_back(mode);
  }
  return modes;
}

struct RawScale {
  std::string ranks, mode = "strong,weak", hosts, hold_out, predict, network;
  std::int64_t repeats = 3, steps = 60;
};

void declare(CLI::App& app, ScaleFlags& flags, RawScale& raw) {
  app.add_option("--ranks", raw.ranks, "rank counts to run")->type_name("1,2,4");
  app.add_option(
         "--mode",
         raw.mode,
         "strong: the global batch stays; weak: it grows with the ranks, and --global-batch "
         "is that of one rank")
      ->type_name("strong,weak")
      ->capture_default_str();
  app.add_option("--repeats", raw.repeats, "runs of each")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number("--repeats", 1, 1000));
  app.add_option("--steps", raw.steps, "of a run; the first sixth warms up and does not count")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number("--steps", 2 * kWindows, 1'000'000'000));
  app.add_option("--out", flags.out, "folder for table, page and runs")->type_name("DIR");
  app.add_flag("--force", flags.force, "writes over what --out holds");
  app.add_option("--hold-out",
                 raw.hold_out,
                 "a rank count that the cost model does not see; its prediction is printed "
                 "next to the measurement")
      ->type_name("N");
  app.add_option("--predict", raw.predict, "further rank counts to predict")->type_name("8,16");
  app.add_option(
         "--network",
         raw.network,
         "the network between the hosts, for the prediction; as in lockstep plan. Without it, "
         "nothing is predicted where ranks are on several hosts")
      ->type_name("nvlink|ib|ethernet|FILE");
  app.add_option("--launcher",
                 flags.run.launcher,
                 "who starts the ranks; auto: srun inside a Slurm allocation, otherwise mpirun; "
                 "sbatch: a job for each run, that is each rank count, mode and repeat")
      ->type_name("auto|mpirun|srun|sbatch")
      ->capture_default_str()
      ->check(one_of("--launcher", {"auto", "mpirun", "srun", "sbatch"}));
  app.add_option("--hosts", raw.hosts, "hosts and their ranks: a file with one a line, or the list")
      ->type_name("FILE|a:2,b:2");
  app.add_option("--ssh", flags.run.ssh, "program that reaches another host")
      ->type_name("PROGRAM")
      ->capture_default_str();
  app.allow_extras();
  app.footer(
      "All other flags are those of lockstep train (lockstep train --help). DIR gets scale.txt, "
      "scale.md, scale.csv, scale.json and scale.html, and runs/ the files of each run. Partition, "
      "account, time and GPUs of sbatch's jobs come from its own variables: SBATCH_PARTITION, "
      "SBATCH_ACCOUNT, SBATCH_TIMELIMIT, SBATCH_GPUS_PER_TASK.");
}

/// The words of train that scale is given; its own are gone.
void refuse_taken(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments)
    for (const std::string_view flag : kTaken)
      if (argument == flag || argument.starts_with(std::string(flag) + "="))
        throw ConfigError(fmt::format("scale: {} is not for a comparison of short runs", flag),
                          flag == "--accumulation"
                              ? "--micro-batch says how many samples a rank computes at once"
                              : "--steps says how long each run is");
}

/// What the runs share, checked as train would.
void parse_train(ScaleFlags& flags) {
  RunFlags& run = flags.run;
  refuse_taken(run.arguments);
  std::vector<std::string> checked = run.arguments;
  checked.insert(checked.end(), {"--steps", std::to_string(flags.steps), "--ranks", "auto"});
  run.train = parse_train_flags(checked);
  if (!run.train.help.empty()) return;
  TrainOptions& options = run.train.options;
  LOCKSTEP_CHECK(!run.train.measures_micro_batch,
                 ConfigError,
                 "scale: --micro-batch auto would give each rank count another one");
  LOCKSTEP_CHECK(options.accumulation == 0,
                 ConfigError,
                 "scale: the configuration has accumulation; give --micro-batch instead");
  if (options.micro_batch == 0) options.micro_batch = default_micro_batch(options.global_batch);
  validate(options);
}

void check_hold_out(const ScaleFlags& flags) {
  if (!flags.hold_out) return;
  LOCKSTEP_CHECK(std::ranges::find(flags.ranks, *flags.hold_out) != flags.ranks.end(),
                 ConfigError,
                 "--hold-out {}: --ranks does not have it",
                 *flags.hold_out);
  LOCKSTEP_CHECK(flags.ranks.size() > 1,
                 ConfigError,
                 "--hold-out {}: nothing is left to fit the cost model to",
                 *flags.hold_out);
}

}  // namespace

std::string_view name_of(Scaling mode) { return mode == Scaling::weak ? "weak" : "strong"; }

std::vector<int> parse_counts(const std::string& flag,
                              const std::string& text,
                              int least,
                              int most) {
  std::vector<int> counts;
  for (const std::string& part : split_at_commas(text)) {
    int count = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), count);
    LOCKSTEP_CHECK(
        error == std::errc() && end == part.data() + part.size() && count >= least && count <= most,
        ConfigError,
        "{}: expected whole numbers from {} to {} with commas, got '{}'",
        flag,
        least,
        most,
        as_written(text));
    counts.push_back(count);
  }
  std::ranges::sort(counts);
  LOCKSTEP_CHECK(std::ranges::adjacent_find(counts) == counts.end(),
                 ConfigError,
                 "{}: '{}' has a number twice",
                 flag,
                 as_written(text));
  return counts;
}

ScaleFlags parse_scale_flags(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Runs a training on several rank counts, and says how it scales and how it would scale "
      "further.",
      "lockstep scale");
  ScaleFlags flags;
  RawScale raw;
  declare(app, flags, raw);
  flags.help = parse_command_line(app, arguments, "lists its flags");
  if (!flags.help.empty()) return flags;
  if (raw.ranks.empty()) throw ConfigError("scale needs --ranks", "--ranks 1,2,4");
  if (flags.out.empty())
    throw ConfigError("scale needs --out DIR", "the folder for its table, page and runs");
  flags.ranks = parse_counts("--ranks", raw.ranks, 1, kMaxScaleRanks);
  flags.modes = parse_modes(raw.mode);
  if (!raw.hold_out.empty()) {
    const std::vector<int> held = parse_counts("--hold-out", raw.hold_out, 1, kMaxScaleRanks);
    LOCKSTEP_CHECK(held.size() == 1, ConfigError, "--hold-out takes one rank count");
    flags.hold_out = held[0];
  }
  if (!raw.predict.empty())
    flags.predict = parse_counts("--predict", raw.predict, 1, kMaxScaleRanks);
  if (!raw.network.empty()) flags.network = open_network(raw.network);
  if (app.count("--hosts") > 0) flags.run.hosts = parse_hosts(raw.hosts);
  flags.repeats = int(raw.repeats);
  flags.steps = raw.steps;
  flags.sbatch = flags.run.launcher == "sbatch";
  LOCKSTEP_CHECK(!flags.sbatch || flags.run.hosts.empty(),
                 ConfigError,
                 "--hosts is for mpirun: Slurm knows its own");
  check_hold_out(flags);
  flags.run.arguments = app.remaining();
  parse_train(flags);
  if (!flags.run.train.help.empty()) {
    flags.help = flags.run.train.help;
    return flags;
  }
  experiments_of(flags);
  return flags;
}

TrainOptions options_of(const ScaleFlags& flags, const Experiment& experiment) {
  TrainOptions options = flags.run.train.options;
  options.global_batch = experiment.global_batch;
  return options;
}

std::vector<Experiment> experiments_of(const ScaleFlags& flags) {
  std::vector<Experiment> experiments;
  for (const int ranks : flags.ranks)
    for (const Scaling mode : flags.modes) {
      if (ranks == 1 && !experiments.empty()) continue;
      const std::int64_t batch = flags.run.train.options.global_batch;
      const std::int64_t times = mode == Scaling::weak ? ranks : 1;
      LOCKSTEP_CHECK(batch <= kMaxMicroBatches * 1024 / times,
                     ConfigError,
                     "scale: a global batch of {} a rank is too large for {} ranks",
                     batch,
                     ranks);
      experiments.push_back({mode, ranks, batch * times});
      plan_batch(options_of(flags, experiments.back()), ranks);
    }
  return experiments;
}

std::vector<std::string> train_arguments(const ScaleFlags& flags,
                                         const Experiment& experiment,
                                         const std::string& folder) {
  std::vector<std::string> words = flags.run.arguments;
  // Of a flag given twice, the last counts.
  words.insert(words.end(),
               {"--global-batch",
                std::to_string(experiment.global_batch),
                "--micro-batch",
                std::to_string(flags.run.train.options.micro_batch),
                "--steps",
                std::to_string(flags.steps),
                "--log-every",
                std::to_string(flags.steps / kWindows),
                "--eval-every",
                "0",
                "--checkpoint-every",
                "0",
                "--ranks",
                "auto",
                "--out",
                folder});
  if (flags.force) words.emplace_back("--force");
  return words;
}

}  // namespace lockstep
