// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/settings/train_flags.h"
#include "lockstep/error.h"
#include "parallel/training/resume.h"

namespace lockstep {

/// `error` in flags: "--seed 1 then, 3 now". What the library knows as a hash or as one text (the
/// model, the optimizer) is explained by the flags that differ between the checkpoint's config.toml
/// and `flags`.
ConfigError in_flags(const OtherSettings& error, const TrainFlags& flags);

}  // namespace lockstep
