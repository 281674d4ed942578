// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/settings/given_settings.h"

namespace lockstep {

/// What follows from several settings together: sizes of a preset, the default micro-batch, what
/// --resume names. `flags` has all values of `given`. Throws ConfigError: settings that contradict
/// each other.
void resolve_settings(const GivenSettings& given, TrainFlags& flags);

}  // namespace lockstep
