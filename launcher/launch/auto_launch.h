// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "core/host/cores.h"
#include "launcher/settings/train_flags.h"
#include "parallel/session/rank_discovery.h"

namespace lockstep {

/// How a `lockstep train` or `bench` without a launcher continues.
struct StartPlan {
  int ranks = 1;                     ///< 1: in this process
  std::vector<std::string> command;  ///< mpirun and its arguments, where ranks > 1
  std::string message;               ///< printed for the user; may be empty
};

/// The ranks to use: --ranks, or the most that the devices (cores or GPUs) of this host allow and
/// the batch can be planned for (no more than shards, a multiple of the ranks that a batch-norm
/// group needs). Throws ConfigError of plan_batch(): the batch cannot be planned for --ranks, or
/// for any number.
int choose_ranks(const TrainFlags& flags, int devices);

/// Throws ConfigError where --ranks contradicts the ranks that a launcher started.
void check_launched_ranks(const TrainFlags& flags, int ranks);

struct StartConditions {
  RankDiscovery discovery;
  Cores cores;
  int gpus = 0;        ///< that ranks would work on; 0: they work on cores
  std::string mpirun;  ///< its path; empty where there is none
  /// Why there is none.
  std::string no_mpirun = "mpirun is not in PATH (on Debian: apt install openmpi-bin)";
  std::string program;             ///< path of this program
  std::string command = "train";   ///< of it, that is to be started
  std::string doing = "training";  ///< what it does, for people
  bool started_already = false;    ///< the recursion marker is set
  bool root = false;               ///< mpirun needs a permission
};

/// What this process sees of it.
StartConditions start_conditions(const std::string& device,
                                 const RankDiscovery& discovery,
                                 const VariableMap& variables);

/// Decides whether and how to start mpirun. Pure. Under a launcher, in a Slurm allocation, with one
/// rank or without mpirun the answer is this process.
/// Throws ConfigError as choose_ranks(); EnvironmentError: the marker is set, but mpirun set no
/// rank, or --ranks asks for several and there is no mpirun, or srun would have to start them.
StartPlan plan_start(const TrainFlags& flags,
                     const std::vector<std::string>& arguments,
                     const StartConditions& conditions);

/// How start() treats the ranks. As it is: those of a training, which end with a checkpoint.
struct StartManner {
  bool terminal = false;  ///< standard output is one, for the ranks to know
  std::string log = {};   ///< of rank 0, for a line about an output that is lost; empty: none
  /// From the wish to stop, at the end of a step, until the ranks are ended: all the time it takes.
  double grace_s = std::numeric_limits<double>::infinity();
  /// For ranks that ended without a word; empty: none.
  std::string hint =
      "logs/ of the run's folder has the output of its ranks; --resume auto resumes from the "
      "newest "
      "checkpoint";
};

/// Says plan.message, runs `plan.command` under supervise() and returns its exit code: what is said
/// passes through, signals
/// become a wish to stop, and end the ranks after the grace time; a second SIGINT ends them at
/// once. 75 where they were stopped, either way. A rank that could not say why it ended is named on
/// standard error. Throws EnvironmentError: it cannot be started, or check_limits().
int start(const StartPlan& plan, const StartManner& manner);

}  // namespace lockstep
