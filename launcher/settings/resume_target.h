// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "launcher/settings/train_flags.h"
#include "lockstep/data/preprocessing.h"

namespace lockstep {

/// The config.toml that holds the settings of what `resume` names: a checkpoint's own; of a run
/// (auto: the one in `out`) that of its newest checkpoint that looks whole, since a start that came
/// to none has changed nothing. Of a run that cannot be resumed, because none of its checkpoints is
/// whole or because it is named and has none, the run's own. Empty: `resume` is empty, or a run
/// begins anew.
std::string config_of_run(const std::string& resume, const std::string& out);

/// How the data were prepared of what `resume` names: a checkpoint's own record; of a run (auto:
/// the one in `out`) the newest checkpoint's that can be read, else that in its folder. Empty:
/// there is none, or `resume` is.
std::optional<data::Preprocessing> record_of_run(const std::string& resume, const std::string& out);

/// Finds out what `flags.resume`, which is not "auto", names: a checkpoint or the folder of a run.
/// Fills in `flags.out` where it is empty, and `flags.continues`. Throws ConfigError: there is no
/// such folder, or a checkpoint that lies in no run's folder without --out.
void resolve_resume(TrainFlags& flags);

}  // namespace lockstep
