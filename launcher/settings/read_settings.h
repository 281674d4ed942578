// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/settings/given_settings.h"

namespace lockstep {

/// Reads settings in the order of the table into flags that have the defaults of their model.
/// A value from a file is dropped where it does not apply because of one that was typed, and where
/// it yields to one (Setting::yields_to); `data_of_file` is the --data of that file. Throws
/// ConfigError: a value that is not valid, a setting that does not apply, contradictions between
/// settings.
TrainFlags read_settings(const GivenSettings& given, const std::string& data_of_file = {});

}  // namespace lockstep
