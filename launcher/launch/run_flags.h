// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/launch/hosts.h"
#include "launcher/settings/flags.h"

namespace lockstep {

/// `--ranks MIN:MAX`, both included.
struct RankRange {
  int min = 1, max = 1;
};

/// What `lockstep run` was asked to do.
struct RunFlags {
  std::string launcher = "auto";
  std::optional<RankRange> rank_range;  ///< as many as there is room for, which may change
  std::vector<Host> hosts;
  std::string hosts_text;  ///< --hosts: as typed, or the whole path of its file, which may change
  std::string ssh = "ssh";
  int max_restarts = 3;
  double backoff_s = 5;
  double grace_s = 60;
  std::vector<std::string> arguments;  ///< those of train, as typed
  std::vector<std::string> own;        ///< those of run, which no config.toml holds
  TrainFlags train;
  /// Not empty: the user asked for this text instead of a run.
  std::string help;
};

/// Parses the arguments after `lockstep run`; what it does not know are flags of train. Throws
/// ConfigError: as parse_train_flags(), no --out, --ranks MIN:MAX with an accumulation that would
/// change with them.
RunFlags parse_run_flags(const std::vector<std::string>& arguments);

/// The ranks for so many devices: choose_ranks(), which may throw, or with --ranks MIN:MAX the most
/// within these that the batch can be planned for; 0: none, which does not throw.
int ranks_on(const RunFlags& flags, int devices);
/// The same for the first start, which throws where there are none: with --hosts fewer may answer
/// later, but no more than there are.
int first_ranks_on(const RunFlags& flags, int devices);

/// The flags of train for a start: as typed, and --resume auto unless --resume or --force was
/// given; where the run in flags.train.out is to `resume`, --resume auto, that --out and no
/// --force. The launcher alone says the number of ranks.
std::vector<std::string> train_arguments(const RunFlags& flags, bool resume);

/// `arguments` of train, without --force, and that the run in `out` is to be resumed.
std::vector<std::string> resuming_arguments(const std::vector<std::string>& arguments,
                                            const std::string& out);

}  // namespace lockstep
