// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/settings/given_settings.h"
#include "lockstep/error.h"

namespace lockstep {

/// Reads settings in the order of the table into flags that have the defaults of their model.
/// A value from a file is dropped where it does not apply because of one that was typed, and where
/// it yields to one (Setting::yields_to); `data_of_file` is the --data of that file. Throws
/// ConfigError: a value that is not valid, a setting that does not apply, contradictions between
/// settings.
TrainFlags read_settings(const GivenSettings& given, const std::string& data_of_file = {});

/// Says in the hint of `error` which of the parameters that it names have a value that the user did
/// not type, and where that stands: "--micro-batch 48 is from --config v.toml, line 3".
void add_origins(Error& error, const TrainFlags& flags);

}  // namespace lockstep
