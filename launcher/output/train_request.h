// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/output/restart_record.h"
#include "launcher/settings/train_flags.h"
#include "lockstep/console.h"

namespace lockstep {

/// What a training run needs to know in addition to its flags.
struct TrainRequest {
  TrainFlags flags;
  std::vector<std::string> arguments;  ///< as typed, for environment.json
  Console::Kind console = Console::Kind::lines;
  std::string notice;  ///< a line to print before the others; may be empty
  /// The run continues in this process, which has outlived the death of another rank.
  std::optional<RestartFacts> outlived = {};
};

}  // namespace lockstep
