// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/data/preprocessing.h"
#include "launcher/flags.h"

namespace lockstep {

/// The config.toml that holds the settings of what `resume` names: a checkpoint's own; that of a
/// run (auto: the one in `out`), which its newest start has written, else its newest checkpoint's.
/// Empty: there is none, or `resume` is.
std::string config_of_run(const std::string& resume, const std::string& out);

/// How the data were prepared of what `resume` names: a checkpoint's own record; of a run (auto:
/// the one in `out`) the newest checkpoint's that can be read, else that in its folder. Empty:
/// there is none, or `resume` is.
std::optional<data::Preprocessing> record_of_run(const std::string& resume, const std::string& out);

/// Finds out what `flags.resume`, which is not "auto", names: a checkpoint or the folder of a run.
/// Fills in `flags.out` where it is empty, and `flags.continues`. Throws ConfigError: there is no
/// such folder, or a checkpoint that lies in no run's folder without --out.
void settle_resume(TrainFlags& flags);

}  // namespace lockstep
