// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/launch/run_flags.h"
#include "parallel/cost/network.h"

namespace lockstep {

/// What stays the same while ranks are added.
enum class Scaling : std::uint8_t {
  strong,  ///< the global batch
  weak     ///< the micro-batches of a rank: the global batch grows with the ranks
};
std::string_view name_of(Scaling mode);

/// What `lockstep scale` was asked to do.
struct ScaleFlags {
  std::vector<int> ranks;      ///< rising, each once
  std::vector<Scaling> modes;  ///< each once
  int repeats = 3;
  std::int64_t steps = 60;
  std::string out;
  bool force = false;
  std::optional<int> hold_out;  ///< of `ranks`, that the cost model is not fitted to
  std::vector<int> predict;     ///< further counts
  bool sbatch = false;
  std::optional<Network> network;  ///< nothing: all ranks on this host
  RunFlags run;                    ///< launcher, hosts, flags of train
  std::string help;                ///< not empty: this text was asked for
};

/// One thing to measure, `repeats` times.
struct Experiment {
  Scaling mode = Scaling::strong;
  int ranks = 1;
  std::int64_t global_batch = 0;
};

/// Parses the arguments after `lockstep scale`; what it does not know are flags of train. Throws
/// ConfigError: lists, modes and counts that are none, flags of train that scale gives itself, a
/// held-out count that is not measured or leaves nothing to fit, a batch that some count cannot
/// share.
ScaleFlags parse_scale_flags(const std::vector<std::string>& arguments);

/// "1,2,4", rising and each within [least, most]. Throws ConfigError naming `flag`.
std::vector<int> parse_counts(const std::string& flag,
                              const std::string& text,
                              int least,
                              int most);

/// What the flags ask for, by count and then by mode; one rank is measured once for both. Throws
/// ConfigError as plan_batch().
std::vector<Experiment> experiments_of(const ScaleFlags& flags);

/// The options of train in an experiment.
TrainOptions options_of(const ScaleFlags& flags, const Experiment& experiment);

/// The flags of train for a run into `folder`; the launcher says the number of ranks.
std::vector<std::string> train_arguments(const ScaleFlags& flags,
                                         const Experiment& experiment,
                                         const std::string& folder);

}  // namespace lockstep
