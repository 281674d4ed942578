// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <unistd.h>

#include "core/base/env.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/train_run.h"
#include "launcher/launch/auto_launch.h"
#include "launcher/launch/process_limits.h"
#include "launcher/output/run_folder.h"
#include "launcher/output/run_folder_files.h"
#include "launcher/settings/command_line.h"
#include "launcher/settings/flags.h"
#include "lockstep/error.h"
#include "parallel/session/error_consensus.h"
#include "parallel/session/stop_signals.h"

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
  Job job(0, nullptr, settings.flags.watch);
  ErrorConsensus meeting(job);
  try {
    if (usage_error) std::rethrow_exception(usage_error);
    return run_training(job, settings);
  } catch (...) {
    return meeting.report(std::current_exception());
  }
}

}  // namespace lockstep
