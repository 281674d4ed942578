// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/settings/given_settings.h"
#include "launcher/settings/train_flags.h"
#include "lockstep/data/dataset.h"

namespace lockstep {

/// Derives --data where it was omitted: synthetic images, or tokens. See PlaceholderData.
void choose_placeholder(const PlaceholderData& placeholder, GivenSettings& given);

/// The data of flags that were parsed with a PlaceholderData: open_data()'s, or tokens that are all
/// 0.
data::DataSplit open_placeholder(const TrainFlags& flags);

}  // namespace lockstep
