// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/settings/train_flags.h"

namespace lockstep {

/// Reads the arguments after `lockstep train`. A value from the command line wins over the same
/// key in --config FILE.toml, and over keys that lose their meaning by it (momentum, where the
/// command line says --optimizer adamw; any other length). Of a flag given twice, the last counts.
/// With --resume and without --config, the configuration is that of the run or checkpoint.
/// Throws ConfigError: unknown flags, models and keys (the nearest valid one is the hint), values
/// that are none, contradictions.
/// With `placeholder`, --data may be omitted for data that are not there; ConfigError: it has
/// classes and --data is there.
TrainFlags parse_train_flags(const std::vector<std::string>& arguments,
                             const PlaceholderData* placeholder = nullptr);

/// The flags of a run whose weights are there, by its config.toml, with what is typed now over
/// them. Where the run's own weights came from (--init) is not looked at: it may be gone or others
/// by now. Throws as parse_train_flags().
TrainFlags parse_saved_flags(const std::string& config, const std::vector<std::string>& typed);

}  // namespace lockstep
