// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/sweep/search_space.h"

namespace lockstep {

/// A number of summary.json that runs are compared by.
struct SweepMetric {
  std::string_view name;
  bool higher_is_better = false;
};

/// What `lockstep sweep` was asked to do.
struct SweepFlags {
  std::vector<VariedSetting> varied;
  std::vector<Configuration> configurations;  ///< all of them, in the order in which they start
  std::string metric = "auto";  ///< auto: val_loss, or train_loss where no run has one
  int at_once = 1;
  std::string out;
  std::vector<std::string> arguments;  ///< those of run and train, as typed
  int gpus = 0;                        ///< that runs would work on; 0: they work on cores
  std::string help;                    ///< not empty: this text was asked for
};

/// The one called `name`. nullptr: there is none.
const SweepMetric* find_metric(std::string_view name);

/// Parses the arguments after `lockstep sweep`; what it does not know are flags of run and train,
/// which are checked for each configuration. Throws ConfigError: flags, a setting that cannot have
/// one of its values (naming the configuration), a setting that is also given as a flag, more runs
/// at once than cores or GPUs, or more than one inside a Slurm allocation or on other hosts;
/// EnvironmentError: this process is a rank of a launcher.
SweepFlags parse_sweep_flags(const std::vector<std::string>& arguments);

/// The folder of a configuration's run, below `out`.
std::string run_folder(const std::string& out, const Configuration& configuration);

/// The arguments of `lockstep run` for a configuration, into `folder`.
std::vector<std::string> run_arguments(const SweepFlags& flags,
                                       const Configuration& configuration,
                                       const std::string& folder);

}  // namespace lockstep
