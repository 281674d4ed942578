// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/data/dataset.h"
#include "launcher/flags.h"

namespace lockstep {

/// The data that the flags name. Throws what data::open() throws.
data::DataSplit open_data(const TrainFlags& flags);

/// Cross-entropy over classes or tokens, squared error for regression, as the flags say.
/// Throws ConfigError: label smoothing without classes.
LossFunction make_loss(const TrainFlags& flags, const data::SampleSpec& samples);

}  // namespace lockstep
