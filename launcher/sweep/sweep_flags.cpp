// SPDX-License-Identifier: Apache-2.0
#include "launcher/sweep/sweep_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "core/base/check.h"
#include "core/base/env.h"
#include "core/host/cores.h"
#include "launcher/launch/run_flags.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/flag_values.h"
#include "parallel/session/device_choice.h"
#include "parallel/session/rank_discovery.h"

namespace lockstep {
namespace {

constexpr SweepMetric kMetrics[] = {
    {"val_loss"}, {"val_accuracy", true}, {"train_loss"}, {"samples_per_s", true}};

/// Flags of run and train that every run is given here, or that would have all runs continue one.
constexpr std::string_view kTaken[] = {"--out", "--resume", "--force"};

struct RawSweep {
  std::vector<std::string> vary;
  std::int64_t random = 0, sweep_seed = 0, at_once = 1;
};

void declare(CLI::App& app, SweepFlags& flags, RawSweep& raw) {
  app.add_option("--vary",
                 raw.vary,
                 "a setting of lockstep train and its values, with commas or | between them; or "
                 "with --random a range: log:1e-4..1e-1, uniform:0..0.5, whole:2..8. May be "
                 "repeated")
      ->type_name("SETTING=VALUES")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--random", raw.random, "draws N combinations in place of running all")
      ->type_name("N")
      ->check(whole_number("--random", 1, std::int64_t(kMaxConfigurations)));
  app.add_option("--sweep-seed", raw.sweep_seed, "of the draws; each run has its own --seed")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number("--sweep-seed", 0, INT64_MAX));
  std::vector<std::string_view> metrics{"auto"};
  for (const SweepMetric& metric : kMetrics) metrics.push_back(metric.name);
  app.add_option("--metric",
                 flags.metric,
                 "that the runs are compared by, as their summary.json has it; auto: val_loss, or "
                 "train_loss without validation data")
      ->type_name("auto|val_loss|val_accuracy|train_loss|samples_per_s")
      ->capture_default_str()
      ->check(one_of("--metric", metrics));
  app.add_option("--at-once", raw.at_once, "runs side by side, which share the cores or GPUs")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number("--at-once", 1, 4096));
  app.add_option("--out", flags.out, "folder for table, page and runs; continues the sweep there")
      ->type_name("DIR");
  app.allow_extras();
  app.footer(
      "All other flags are those of lockstep run and lockstep train. DIR gets sweep.txt, "
      "sweep.csv, "
      "sweep.json and report.html, and runs/ a folder for each combination.");
}

void check_arguments(const SweepFlags& flags) {
  for (const std::string& argument : flags.arguments) {
    const std::string name = argument.substr(0, argument.find('='));
    if (std::ranges::find(kTaken, name) != std::end(kTaken))
      throw ConfigError(fmt::format("sweep: {} is not for several runs", name),
                        "each has a folder of its own below --out, and one that was cut off is "
                        "continued when the same sweep is started again");
    for (const VariedSetting& varied : flags.varied)
      if (name == "--" + varied.name)
        throw ConfigError(fmt::format("sweep: {} is both a flag and varied", name),
                          "leave one of them out");
  }
  for (const VariedSetting& varied : flags.varied)
    LOCKSTEP_CHECK(std::ranges::find(kTaken, "--" + varied.name) == std::end(kTaken),
                   ConfigError,
                   "sweep: --vary {} is not for several runs",
                   varied.name);
  for (std::size_t i = 0; i < flags.varied.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      LOCKSTEP_CHECK(flags.varied[i].name != flags.varied[j].name,
                     ConfigError,
                     "sweep: --vary {} is there twice",
                     flags.varied[i].name);
}

/// Has run and train read each configuration before the first starts. Returns the device's name.
std::string check_configurations(SweepFlags& flags) {
  std::string device;
  for (const Configuration& configuration : flags.configurations) try {
      const RunFlags run = parse_run_flags(
          run_arguments(flags, configuration, run_folder(flags.out, configuration)));
      if (!run.help.empty() || !run.train.help.empty()) {
        flags.help = run.help.empty() ? run.train.help : run.help;
        return {};
      }
      LOCKSTEP_CHECK(flags.at_once == 1 || device.empty() || device == run.train.device,
                     ConfigError,
                     "--at-once {}: runs on {} and {} cannot share this machine",
                     flags.at_once,
                     device,
                     run.train.device);
      device = run.train.device;
      LOCKSTEP_CHECK(flags.at_once == 1 || run.hosts.empty(),
                     ConfigError,
                     "--at-once {}: runs on other hosts follow one another",
                     flags.at_once);
    } catch (const ConfigError& error) {
      throw ConfigError(
          fmt::format("sweep: {}: {}", configuration_text(configuration), error.what()),
          error.hint());
    }
  return device;
}

void check_at_once(SweepFlags& flags, const std::string& device) {
  const RankDiscovery discovery = discover_rank(process_variables());
  if (discovery.launched_by != LaunchedBy::none)
    throw EnvironmentError(
        fmt::format("lockstep was itself started as a rank, by {}", discovery.source),
        "lockstep sweep starts mpirun or srun for each run; start it without them");
  flags.gpus = usable_gpus(device);
  if (flags.at_once == 1) return;
  if (discovery.slurm_allocation)
    throw ConfigError(
        fmt::format("--at-once {}: inside a Slurm allocation each run takes all of it",
                    flags.at_once),
        "omit --at-once, or submit a sweep for each part of the values");
  const int devices = flags.gpus > 0 ? flags.gpus : available_cores().count;
  LOCKSTEP_CHECK(flags.at_once <= devices,
                 ConfigError,
                 "--at-once {}: this machine has {} {}",
                 flags.at_once,
                 devices,
                 flags.gpus > 0 ? "GPUs" : "cores");
}

}  // namespace

const SweepMetric* find_metric(std::string_view name) {
  const auto* const found = std::ranges::find(kMetrics, name, &SweepMetric::name);
  return found == std::end(kMetrics) ? nullptr : found;
}

SweepFlags parse_sweep_flags(const std::vector<std::string>& arguments) {
  CLI::App app("Trains with several values of settings, and compares the runs.", "lockstep sweep");
  SweepFlags flags;
  RawSweep raw;
  declare(app, flags, raw);
  for (CLI::Option* option : app.get_options())
    if (option->get_name() != "--vary") option->take_last();
  flags.help = parse_with_own_policies(app, arguments, "lists its flags");
  if (!flags.help.empty()) return flags;
  if (raw.vary.empty())
    throw ConfigError("sweep needs --vary SETTING=VALUES", "--vary lr=0.01,0.1");
  if (flags.out.empty())
    throw ConfigError("sweep needs --out DIR", "the folder for its table, page and runs");
  for (const std::string& text : raw.vary) flags.varied.push_back(parse_varied(text));
  flags.at_once = int(raw.at_once);
  flags.arguments = app.remaining();
  check_arguments(flags);
  flags.configurations =
      raw.random > 0
          ? draw_from(flags.varied, std::size_t(raw.random), std::uint64_t(raw.sweep_seed))
          : grid_of(flags.varied);
  const std::string device = check_configurations(flags);
  if (flags.help.empty()) check_at_once(flags, device);
  return flags;
}

std::string run_folder(const std::string& out, const Configuration& configuration) {
  return fmt::format("{}/runs/{}", out, folder_of(configuration));
}

std::vector<std::string> run_arguments(const SweepFlags& flags,
                                       const Configuration& configuration,
                                       const std::string& folder) {
  std::vector<std::string> words = flags.arguments;
  for (const auto& [name, value] : configuration)
    words.push_back(fmt::format("--{}={}", name, value));
  words.insert(words.end(), {"--out", folder});
  return words;
}

}  // namespace lockstep
