// SPDX-License-Identifier: Apache-2.0
#include "launcher/self_start.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <system_error>
#include <unistd.h>

#include "core/base/error.h"
#include "parallel/schedule.h"

namespace lockstep {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Ranks whose micro-batches form one batch-norm group.
int cluster_of(const TrainOptions& options) {
  if (options.batch_norm.kind != BatchNormPolicy::Kind::group || options.micro_batch == 0) return 1;
  return int(std::max<std::int64_t>(1, options.batch_norm.group / options.micro_batch));
}

std::int64_t micro_batches_of(const TrainOptions& options) {
  // With the accumulation alone, the micro-batch follows from the ranks: any number has shards.
  if (options.micro_batch == 0) return options.global_batch;
  return divide_up(options.global_batch, options.micro_batch);
}

std::int64_t shards_of(const TrainOptions& options) {
  const std::int64_t micro_batches = micro_batches_of(options);
  if (options.shards > 0) return std::min<std::int64_t>(options.shards, micro_batches);
  return std::max(1, default_shards(micro_batches, cluster_of(options)));
}

void check_shards(const TrainOptions& options, int ranks, const char* who) {
  const std::int64_t shards = shards_of(options);
  if (ranks <= shards) return;
  const std::string arithmetic = options.shards > 0 && options.shards <= shards
                                     ? fmt::format("--shards {} ", options.shards)
                                     : fmt::format("a global batch of {} in micro-batches of {} ",
                                                   options.global_batch,
                                                   std::max<std::int64_t>(options.micro_batch, 1));
  throw ConfigError(
      fmt::format("{} {} ranks, but {}gives work to {} at most", who, ranks, arithmetic, shards),
      fmt::format("use at most {} ranks, a smaller --micro-batch, or a larger --global-batch",
                  shards));
}

}  // namespace

int choose_ranks(const TrainFlags& flags, const Cores& cores) {
  const TrainOptions& options = flags.options;
  if (flags.ranks > 0) {
    check_shards(options, flags.ranks, "--ranks asks for");
    return flags.ranks;
  }
  std::int64_t most = std::min<std::int64_t>(cores.count, shards_of(options));
  if (options.accumulation > 0) {
    const std::int64_t per_step = options.micro_batch > 0
                                      ? divide_up(micro_batches_of(options), options.accumulation)
                                      : options.global_batch / options.accumulation;
    most = std::min(most, std::max<std::int64_t>(1, per_step));
  }
  const int cluster = cluster_of(options);
  return int(most >= cluster ? most - most % cluster : most);
}

void check_launched_ranks(const TrainFlags& flags, int ranks) {
  if (flags.ranks > 0 && flags.ranks != ranks) {
    throw ConfigError(
        fmt::format("--ranks {} contradicts the launcher, which started {}", flags.ranks, ranks),
        "leave out --ranks under mpirun and srun");
  }
  check_shards(flags.options, ranks, "the launcher started");
}

StartPlan plan_start(const TrainFlags& flags,
                     const std::vector<std::string>& arguments,
                     const StartConditions& conditions) {
  StartPlan plan;
  const RankDiscovery& discovery = conditions.discovery;
  if (discovery.launched_by != LaunchedBy::nobody) return plan;
  LOCKSTEP_CHECK(!conditions.started_already,
                 EnvironmentError,
                 "LOCKSTEP_STARTED is set, but no launcher told this process its rank: unset it");
  if (discovery.slurm_allocation) {
    if (discovery.slurm_tasks_unused > 1) {
      plan.message = fmt::format(
          "inside a Slurm allocation of {0} tasks, but not started by srun: training on one rank. "
          "For all: srun --mpi=pmix -n {0} lockstep train ...",
          discovery.slurm_tasks_unused);
    }
    return plan;
  }
  const int ranks = choose_ranks(flags, conditions.cores);
  if (ranks <= 1) return plan;
  if (conditions.mpirun.empty()) {
    LOCKSTEP_CHECK(flags.ranks == 0,
                   EnvironmentError,
                   "--ranks {}: mpirun is not in PATH (on Debian: apt install openmpi-bin)",
                   ranks);
    plan.message = fmt::format(
        "{} cores could train, but mpirun is not in PATH (on Debian: apt install openmpi-bin): "
        "training on one rank",
        ranks);
    return plan;
  }
  const bool oversubscribed = ranks > conditions.cores.count;
  plan.ranks = ranks;
  // Quiet: the failing rank has said what is wrong. The host list tells the slots, which mpirun
  // would otherwise guess without a look at mask and quota. It binds to cores of the whole host, so
  // that only whole hosts are bound.
  plan.command = {conditions.mpirun, "--quiet", "-np", std::to_string(ranks)};
  if (oversubscribed) {
    plan.command.push_back("--oversubscribe");
  } else {
    plan.command.insert(plan.command.end(), {"--host", fmt::format("localhost:{}", ranks)});
  }
  const bool bind = !oversubscribed && conditions.cores.all_of_host;
  plan.command.insert(plan.command.end(), {"--bind-to", bind ? "core" : "none"});
  if (conditions.root) plan.command.push_back("--allow-run-as-root");
  plan.command.push_back(conditions.program);
  plan.command.push_back("train");
  plan.command.insert(plan.command.end(), arguments.begin(), arguments.end());
  plan.message = fmt::format("starting {} ranks under mpirun on {} cores (--ranks 1 for one)",
                             ranks,
                             conditions.cores.count);
  return plan;
}

std::string find_program(const std::string& program, const VariableMap& variables) {
  const auto path = variables.find("PATH");
  if (path == variables.end()) return {};
  std::istringstream folders(path->second);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + program;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

void start(const StartPlan& plan, bool terminal) {
  setenv("LOCKSTEP_STARTED", terminal ? "terminal" : "plain", 1);
  std::vector<char*> arguments;
  for (const std::string& argument : plan.command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  throw EnvironmentError(
      fmt::format("{}: {}", plan.command[0], std::generic_category().message(errno)),
      "use --ranks 1");
}

}  // namespace lockstep
