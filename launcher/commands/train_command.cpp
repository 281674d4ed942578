// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <unistd.h>
#include <utility>

#include "core/base/env.h"
#include "core/io/checkpoint/checkpoint_names.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/train_run.h"
#include "launcher/launch/auto_launch.h"
#include "launcher/launch/process_limits.h"
#include "launcher/launch/run_flags.h"
#include "launcher/output/restart_record.h"
#include "launcher/output/run_folder.h"
#include "launcher/output/run_folder_files.h"
#include "launcher/output/snapshot_folder.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/flags.h"
#include "lockstep/error.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/session/error_consensus.h"
#include "parallel/session/stop_signals.h"
#include "parallel/session/survivors.h"

namespace lockstep {
namespace {

/// What a process without a launcher does first: check the folder, and start mpirun where
/// several ranks are to train. Returns its exit code, or nothing where the run is to be done in
/// this process, with a notice in `settings`.
std::optional<int> start_alone(TrainRequest& settings, const StartConditions& conditions) {
  RunFolder::check(settings.flags.out, existing_folder(settings.flags));
  StartPlan plan = plan_start(settings.flags, settings.arguments, conditions);
  settings.notice = plan.message;
  if (plan.ranks <= 1) return std::nullopt;
  check_limits(plan.ranks);
  // Named here already: where the ranks' output is lost, their launcher writes into their log.
  const bool fresh = settings.flags.out.empty();
  if (fresh) {
    settings.flags.out = RunFolder::create_fresh();
    plan.command.insert(plan.command.end(), {"--out", settings.flags.out});
  }
  const int code = start(plan,
                         {.terminal = settings.console == Console::Kind::terminal,
                          .log = settings.flags.out + "/" + kTranscript});
  std::error_code not_empty;
  if (fresh) std::filesystem::remove(settings.flags.out, not_empty);  // of a run that never began
  return code;
}

/// Thrown out of train_in_job(), so that the Job is gone when it is caught.
struct OutlivedDeath {
  RankDeath death;
  double noticed = 0;  // seconds since 1970
};

/// Whether a run that is resumed from --out comes to the weights of this one: it was not to begin
/// from those of another one, or has saved what it made of them.
bool goes_on_from_out(const TrainFlags& flags) {
  const bool elsewhere = !flags.resume.empty() && flags.resume != "auto";
  return !elsewhere || !io::steps_in(flags.out + "/" + kCheckpointsFolder).empty() ||
         SnapshotFolder::newest_step_of(flags.out) >= 0;
}

int train_in_job(const TrainRequest& settings, const std::exception_ptr& usage_error) {
  Job job(0, nullptr, settings.flags.watch);
  ErrorConsensus meeting(job);
  try {
    if (usage_error) std::rethrow_exception(usage_error);
    return run_training(job, settings);
  } catch (...) {
    const double noticed = unix_seconds();
    auto death = outlived_death(job, goes_on_from_out(settings.flags));
    if (!death) return meeting.report(std::current_exception());
    throw OutlivedDeath{std::move(*death), noticed};
  }
}

/// What `lockstep run` tells ranks that it starts after a fault, and with which flags.
void continue_without(const OutlivedDeath& outlived, TrainRequest& settings) {
  const RankDeath& death = outlived.death;
  const int ranks = shrink_to_survivors(
      death, [&](int left) { return try_plan_batch(settings.flags.options, left).has_value(); });
  const std::string block = to_block(death.record);
  const int before =
      settings.outlived ? settings.outlived->restart : survivor_terms().value().restarts;
  const double agreed = unix_seconds();
  settings.outlived = RestartFacts{.fault = block.substr(0, block.find('\n')),
                                   .exit_code = death.record.exit_code,
                                   .restart = before + 1,
                                   .step = std::max(death.step, death.record.step),
                                   .reported = outlived.noticed,
                                   .ended = agreed,
                                   .started = agreed,
                                   .survivors = ranks};
  settings.flags = parse_train_flags(resuming_arguments(settings.arguments, settings.flags.out));
}

}  // namespace

int train_command(const std::vector<std::string>& arguments) {
  const pid_t parent = getppid();
  env();
  const VariableMap variables = process_variables();
  const RankDiscovery discovery = discover_rank(variables);
  const bool alone = discovery.launched_by == LaunchedBy::none;
  TrainRequest settings;
  settings.arguments = arguments;
  settings.console = console_kind();
  if (discovery.launched_by == LaunchedBy::mpi && !env().started &&
      settings.console == Console::Kind::terminal)
    settings.notice = fmt::format(
        "mpirun kills its ranks two seconds after Ctrl-C; kill -USR1 {} stops them with a "
        "checkpoint, however long that takes",
        parent);

  std::exception_ptr usage_error;
  try {
    settings.flags = parse_train_flags(arguments);
  } catch (const Error&) {
    if (alone) throw;
    usage_error = std::current_exception();  // said once, when the ranks know each other
  }
  if (!settings.flags.help.empty()) {
    if (discovery.rank == 0) print_help(settings.flags.help);
    return 0;
  }
  if (alone)
    if (const auto code =
            start_alone(settings, start_conditions(settings.flags.device, discovery, variables)))
      return *code;

  catch_stop_signals();
  // Where mpirun and its supervisor are killed together, no other process ends this rank.
  if (discovery.launched_by == LaunchedBy::mpi && env().started) die_with(parent);
  for (;;) {
    try {
      return train_in_job(settings, usage_error);
    } catch (const OutlivedDeath& death) {
      continue_without(death, settings);
    }
  }
}

}  // namespace lockstep
