// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "launcher/settings/given_settings.h"

namespace lockstep {

/// Whose file --config is.
enum class ConfigSource : std::uint8_t {
  typed,        ///< the user named it
  resumed_run,  ///< of the run that --resume names
  saved_run,    ///< of a run whose weights are there: see parse_saved_flags()
};

/// Adds the settings of the TOML file `file` that were not typed to `given`; `app` has the flags
/// that a wrong key may mean. Returns the --data of the file, as it is written there. Throws
/// ConfigError: it is not a configuration file, or has an unknown key. DataError: it cannot be
/// read.
std::string read_config_file(const std::string& file,
                             ConfigSource source,
                             const CLI::App& app,
                             GivenSettings& given);

/// `flags` as a TOML file that --config reads; without --out, --force, --resume and
/// --resume-override, which belong to one start. Flags that do not apply (momentum with AdamW) are
/// omitted. Relative paths stay as they are; the key working-folder says where they begin.
std::string to_toml(const TrainFlags& flags);

}  // namespace lockstep
