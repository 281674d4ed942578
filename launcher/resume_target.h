// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/flags.h"

namespace lockstep {

/// Finds out what `flags.resume`, which is not "auto", names: a checkpoint or the folder of a run.
/// Fills in `flags.out` where it is empty, and `flags.continues`. Throws ConfigError: there is no
/// such folder, or a checkpoint that lies in no run's folder without --out.
void settle_resume(TrainFlags& flags);

}  // namespace lockstep
