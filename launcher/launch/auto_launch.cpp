// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch/auto_launch.h"

#include <algorithm>
#include <climits>
#include <sstream>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/env.h"
#include "launcher/launch/launch_plan.h"
#include "launcher/launch/process_limits.h"
#include "launcher/launch/restart_policy.h"
#include "launcher/launch/shm_backing_dir.h"
#include "launcher/launch/supervisor.h"
#include "launcher/processes/program_path.h"
#include "parallel/batch/batch_plan.h"
#include "parallel/comm/mpi_session.h"
#include "parallel/session/device_choice.h"

namespace lockstep {
int choose_ranks(const TrainFlags& flags, int devices) {
  if (flags.ranks > 0) return plan_batch(flags.options, flags.ranks).ranks;
  // Fewer ranks may fit: fewer than the shards, or a multiple of a batch-norm group's.
  for (int ranks = devices; ranks >= 1; --ranks)
    if (try_plan_batch(flags.options, ranks)) return ranks;
  return plan_batch(flags.options, devices).ranks;  // says why
}

void check_launched_ranks(const TrainFlags& flags, int ranks) {
  if (flags.ranks == 0 || flags.ranks == ranks || flags.ranks_from_run) return;
  throw ConfigError(
      fmt::format("--ranks {} contradicts the launcher, which started {}", flags.ranks, ranks),
      "omit --ranks, and ranks in a --config file, under mpirun and srun");
}

StartConditions start_conditions(const std::string& device,
                                 const RankDiscovery& discovery,
                                 const VariableMap& variables) {
  StartConditions conditions;
  conditions.discovery = discovery;
  conditions.cores = available_cores();
  conditions.gpus = usable_gpus(device);
  if (!MpiSession::built_in())
    conditions.no_mpirun = "this program was built without MPI (-DLOCKSTEP_MPI=OFF)";
  else if (!MpiSession::is_open_mpi())
    conditions.no_mpirun =
        "this program's MPI is not Open MPI, and lockstep starts no other mpirun (mpiexec -n 2 "
        "lockstep train ...)";
  else
    conditions.mpirun = find_program("mpirun", variables);
  conditions.program = own_path();
  conditions.started_already = env().started.has_value();
  conditions.root = geteuid() == 0;
  return conditions;
}

namespace {

/// Why the batch leaves devices without a rank, and which flag would not; empty: it leaves none.
std::string format_idle_devices(const TrainFlags& flags, int ranks, int devices, const char* kind) {
  if (ranks >= devices || flags.ranks > 0) return {};
  const std::string idle =
      fmt::format("{} of {} {} idle: {}",
                  devices - ranks,
                  devices,
                  devices - ranks == 1 ? fmt::format("{} is", kind) : fmt::format("{} are", kind),
                  plan_batch(flags.options, ranks).to_string());
  TrainOptions options = flags.options;
  options.micro_batch = std::max<std::int64_t>(1, options.global_batch / devices);
  options.accumulation = options.shards = 0;
  if (!try_plan_batch(options, devices))
    return fmt::format("{} (--global-batch, --micro-batch and --shards decide it)", idle);
  return fmt::format("{} (--micro-batch {}{} uses all)",
                     idle,
                     options.micro_batch,
                     flags.options.shards > 0 ? ", without --shards," : "");
}

/// Inside an allocation: one rank, as srun starts several.
StartPlan plan_in_slurm(const TrainFlags& flags, const StartConditions& conditions) {
  const RankDiscovery& discovery = conditions.discovery;
  StartPlan plan;
  if (flags.ranks > 1 && !flags.ranks_from_run) {
    throw EnvironmentError(
        fmt::format("--ranks {}: inside a Slurm allocation, srun starts the ranks", flags.ranks),
        fmt::format("use: srun --mpi=pmix -n {} lockstep {} ...", flags.ranks, conditions.command));
  }
  if (discovery.slurm_tasks_unused > 1) {
    plan.message = fmt::format(
        "inside a Slurm allocation of {0} tasks, but not started by srun: {2} on one rank. "
        "For all: srun --mpi=pmix -n {0} lockstep {1} ...",
        discovery.slurm_tasks_unused,
        conditions.command,
        conditions.doing);
  }
  return plan;
}

}  // namespace

StartPlan plan_start(const TrainFlags& flags,
                     const std::vector<std::string>& arguments,
                     const StartConditions& conditions) {
  StartPlan plan;
  const RankDiscovery& discovery = conditions.discovery;
  if (discovery.launched_by != LaunchedBy::none) return plan;
  LOCKSTEP_CHECK(!conditions.started_already,
                 EnvironmentError,
                 "LOCKSTEP_STARTED is set, but no launcher set this process's rank: unset it");
  if (discovery.slurm_allocation) return plan_in_slurm(flags, conditions);
  const int devices = conditions.gpus > 0 ? conditions.gpus : conditions.cores.count;
  const char* const kind = conditions.gpus > 0 ? "GPUs" : "cores";
  const int ranks = choose_ranks(flags, devices);
  const std::string idle = format_idle_devices(flags, ranks, devices, kind);
  if (ranks <= 1) {
    plan.message = idle;
    return plan;
  }
  if (conditions.mpirun.empty()) {
    LOCKSTEP_CHECK(flags.ranks == 0 || flags.ranks_from_run,
                   EnvironmentError,
                   "--ranks {}: {}",
                   ranks,
                   conditions.no_mpirun);
    plan.message = fmt::format("{} {} could be used, but {}: {} on one rank",
                               ranks,
                               kind,
                               conditions.no_mpirun,
                               conditions.doing);
    return plan;
  }
  LaunchSite site;
  site.mpirun = conditions.mpirun;
  site.program = conditions.program;
  site.command = conditions.command;
  site.cores = conditions.cores;
  site.gpus = conditions.gpus;
  site.root = conditions.root;
  plan.ranks = ranks;
  plan.command = launch_command(Launcher::mpirun, ranks, site, arguments, {});
  plan.message = fmt::format(
      "starting {} ranks under mpirun on {} {} (--ranks 1 for one)", ranks, devices, kind);
  if (!idle.empty()) plan.message += "\n" + idle;
  return plan;
}

int start(const StartPlan& plan, const StartManner& manner) {
  check_limits(plan.ranks);
  SupervisorOutput output(manner.log);
  if (!plan.message.empty()) output.out().line(plan.message);
  ChildPlan child = plan_child(Launcher::mpirun, LaunchSite());
  child.command = plan.command;
  child.grace_s = manner.grace_s;
  child.variables["LOCKSTEP_STARTED"] = manner.terminal ? "terminal" : "plain";
  const ShmBackingDir segments(child);
  SupervisorSignals signals;
  const Ending ending = supervise(child, signals, output);
  const Attempt attempt{.exit_code = ending.exit_code,
                        .stop_requested = ending.stop_requested,
                        .out_of_grace = ending.out_of_grace};
  if (was_stopped(attempt)) return int(ExitCode::requeue);
  std::string text = ending.fault.text;
  if (text.empty() && ending.exit_code > 128)
    text =
        fmt::format("the ranks ended with exit code {}, and none reported why", ending.exit_code);
  if (!ending.fault.said && !text.empty())
    output.err().line(
        fmt::format("error: {}{}", text, manner.hint.empty() ? "" : "\nhint: " + manner.hint));
  return ending.exit_code;
}

}  // namespace lockstep
