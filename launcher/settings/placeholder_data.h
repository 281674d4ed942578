// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/data/dataset.h"
#include "launcher/settings/command_line_arguments.h"
#include "launcher/settings/train_flags.h"

namespace lockstep {

/// Names data in `raw` where --data was left out: synthetic images, or tokens. See PlaceholderData.
void choose_placeholder(const CLI::App& app,
                        const PlaceholderData& stand_in,
                        CommandLineArguments& raw);

/// The data of flags that were parsed with a PlaceholderData: open_data()'s, or tokens that are all
/// 0.
data::DataSplit open_stand_in(const TrainFlags& flags);

}  // namespace lockstep
