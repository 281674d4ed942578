// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/run_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <string_view>
#include <system_error>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "launcher/launch/auto_launch.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/flag_values.h"
#include "launcher/settings/flags.h"
#include "lockstep/error.h"
#include "parallel/batch/batch_plan.h"

namespace lockstep {
namespace {

constexpr int kMaxRanks = 65536;

bool is_flag(const std::string& argument, std::string_view name) {
  return argument == name || argument.starts_with(std::string(name) + "=");
}

/// "2:8"; nothing for another text, which is one of train.
std::optional<RankRange> parse_range(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const char* const end = text.data() + text.size();
  RankRange range;
  const auto min = std::from_chars(text.data(), end, range.min);
  const auto max = std::from_chars(text.data() + colon + 1, end, range.max);
  const bool valid = min.ec == std::errc() && min.ptr == text.data() + colon &&
                     max.ec == std::errc() && max.ptr == end && range.min >= 1 &&
                     range.min <= range.max && range.max <= kMaxRanks;
  LOCKSTEP_CHECK(valid,
                 ConfigError,
                 "--ranks '{}': expected MIN:MAX with 1 <= MIN <= MAX <= {}, such as 2:8",
                 as_written(text),
                 kMaxRanks);
  return range;
}

struct Raw {
  std::string ranks = "auto", hosts;
  std::int64_t max_restarts = 3;
};

void declare(CLI::App& app, RunFlags& flags, Raw& raw) {
  app.add_option("--launcher",
                 flags.launcher,
                 "who starts the ranks; auto: srun inside a Slurm "
                 "allocation, otherwise mpirun")
      ->type_name("auto|mpirun|srun")
      ->capture_default_str()
      ->check(one_of("--launcher", {"auto", "mpirun", "srun"}));
  app.add_option("--ranks",
                 raw.ranks,
                 "auto: as many as cores or slots and the batch allow; MIN:MAX: between these, as "
                 "the hosts of --hosts go and come")
      ->type_name("auto|N|MIN:MAX")
      ->capture_default_str()
      ->check([](const std::string& text) {
        if (text.find(':') != std::string::npos) return std::string();  // parse_range()
        return whole_number_or("--ranks", "auto", 1, kMaxRanks)(text);
      });
  app.add_option("--hosts", raw.hosts, "hosts and their ranks: a file with one a line, or the list")
      ->type_name("FILE|a:2,b:2");
  app.add_option("--ssh", flags.ssh, "program that reaches another host")
      ->type_name("PROGRAM")
      ->capture_default_str();
  app.add_option(
         "--max-restarts", raw.max_restarts, "in a row without a newer checkpoint or snapshot")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number("--max-restarts", 0, 1000000));
  app.add_option("--backoff",
                 flags.backoff_s,
                 "pause before a second restart in a row without a newer checkpoint or snapshot; "
                 "doubles up to 5 minutes")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(real_number("--backoff", 0, 86400));
  app.add_option("--grace", flags.grace_s, "time to stop with a checkpoint before ranks are killed")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(real_number("--grace", 0, 86400));
  app.allow_extras();
  app.footer(
      "All other flags are those of lockstep train (lockstep train --help); --out is "
      "required.");
}

}  // namespace

RunFlags parse_run_flags(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Starts the ranks of a training, restarts them after a failure, and hands on the "
      "wish to stop.",
      "lockstep run");
  RunFlags flags;
  Raw raw;
  declare(app, flags, raw);
  const bool word = !arguments.empty() && arguments[0] == "train";
  flags.help = parse_command_line(
      app, {arguments.begin() + (word ? 1 : 0), arguments.end()}, "lists its flags");
  if (!flags.help.empty()) return flags;
  flags.max_restarts = int(raw.max_restarts);
  flags.arguments = app.remaining();
  for (const CLI::Option* option : app.get_options())
    if (option->count() > 0)
      flags.own.insert(flags.own.end(), {option->get_name(), option->results().back()});
  if (app.count("--hosts") > 0) flags.hosts = parse_hosts(raw.hosts);
  std::error_code ignored;
  const bool file = std::filesystem::is_regular_file(raw.hosts, ignored);
  flags.hosts_text = file ? std::filesystem::absolute(raw.hosts).string() : raw.hosts;
  flags.rank_range = parse_range(raw.ranks);
  std::vector<std::string> checked = train_arguments(flags, false);
  checked.insert(checked.end(), {"--ranks", flags.rank_range ? "auto" : raw.ranks});
  flags.train = parse_train_flags(checked);
  const TrainOptions& options = flags.train.options;
  LOCKSTEP_CHECK(!flags.rank_range || options.accumulation == 0 || options.micro_batch > 0,
                 ConfigError,
                 "--ranks {}: --accumulation without --micro-batch gives each number of ranks "
                 "another micro-batch, "
                 "which a run keeps; give --micro-batch instead",
                 raw.ranks);
  if (flags.train.out.empty())
    throw ConfigError("run needs --out DIR", "the folder in which a restart finds its checkpoints");
  return flags;
}

int ranks_on(const RunFlags& flags, int devices) {
  if (!flags.rank_range) return choose_ranks(flags.train, devices);
  for (int ranks = std::min(devices, flags.rank_range->max); ranks >= flags.rank_range->min;
       --ranks)
    if (try_plan_batch(flags.train.options, ranks)) return ranks;
  return 0;
}

int first_ranks_on(const RunFlags& flags, int devices) {
  const int ranks = ranks_on(flags, devices);
  if (ranks > 0) return ranks;
  const auto [min, max] = *flags.rank_range;
  if (devices >= min) (void)plan_batch(flags.train.options, min);  // says why
  throw EnvironmentError(
      fmt::format(
          "--ranks {}:{}: there is room for {} rank{}", min, max, devices, devices == 1 ? "" : "s"),
      "give a smaller MIN or more --hosts");
}

std::vector<std::string> train_arguments(const RunFlags& flags, bool resume) {
  std::vector<std::string> result = flags.arguments;
  const bool says_where_from =
      std::ranges::any_of(flags.arguments, [](const std::string& argument) {
        return is_flag(argument, "--force") || is_flag(argument, "--resume");
      });
  if (resume)
    result = resuming_arguments(flags.arguments, flags.train.out);
  else if (!says_where_from)
    result.insert(result.end(), {"--resume", "auto"});
  result.insert(result.end(), {"--ranks", "auto"});
  return result;
}

std::vector<std::string> resuming_arguments(const std::vector<std::string>& arguments,
                                            const std::string& out) {
  std::vector<std::string> result;
  bool says_where_to = false;
  for (const std::string& argument : arguments) {
    if (is_flag(argument, "--force")) continue;
    says_where_to |= is_flag(argument, "--out");
    result.push_back(argument);
  }
  // Of a flag given twice, the last counts.
  result.insert(result.end(), {"--resume", "auto"});
  if (!says_where_to) result.insert(result.end(), {"--out", out});
  return result;
}

}  // namespace lockstep
