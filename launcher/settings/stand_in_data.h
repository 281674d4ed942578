// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/data/dataset.h"
#include "launcher/settings/raw_flags.h"
#include "launcher/settings/train_flags.h"

namespace lockstep {

/// Names data in `raw` where --data was left out: synthetic images, or tokens. See StandInData.
void choose_stand_in(const CLI::App& app, const StandInData& stand_in, RawFlags& raw);

/// The data of flags that were parsed with a StandInData: open_data()'s, or tokens that are all 0.
data::DataSplit open_stand_in(const TrainFlags& flags);

}  // namespace lockstep
