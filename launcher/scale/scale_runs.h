// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/launch/launch_plan.h"
#include "launcher/launch/supervisor.h"
#include "launcher/scale/scale_result.h"

namespace lockstep {

/// Starts the runs of `lockstep scale`, one at a time.
class ScaleRuns {
 public:
  /// Throws EnvironmentError: the launcher is not installed, or this process is itself a rank.
  explicit ScaleRuns(const ScaleFlags& flags);

  const LaunchSite& site() const { return site_; }
  /// "mpirun", for people.
  std::string launcher_name() const;

  /// Runs train for `experiment` into `folder`, what it says into `log`. Returns why it failed, for
  /// people; empty: it did not.
  std::string start(const Experiment& experiment,
                    const std::string& folder,
                    const std::string& log,
                    SupervisorSignals& signals,
                    SupervisorOutput& output) const;

 private:
  std::vector<std::string> command(const Experiment& experiment,
                                   const std::string& folder,
                                   const std::string& log) const;

  const ScaleFlags& flags_;
  LaunchSite site_;
  std::string sbatch_;
  Launcher launcher_ = Launcher::none;
};

/// A job script for sbatch that runs `words` and writes what they say into `log`.
std::string job_script(int ranks, const std::vector<std::string>& words, const std::string& log);

/// `text` as one word of a shell.
std::string shell_word(const std::string& text);

}  // namespace lockstep
