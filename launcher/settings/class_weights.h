// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/settings/train_flags.h"
#include "lockstep/data/dataset.h"

namespace lockstep {

/// Puts numbers in place of what --class-weights names: `balanced` becomes samples / (classes *
/// samples of the class) of the training part `data`, whose mean over the samples is 1
/// (scikit-learn's); a file, the numbers in it, between commas and white space. Throws ConfigError:
/// targets that are not one class a sample, a class without samples, not one number for each class;
/// DataError: a file that cannot be read or holds something else.
void resolve_class_weights(TrainFlags& flags, const data::Dataset& data);

/// The numbers of --class-weights for so many classes; empty where there are none. Throws
/// ConfigError: another count, numbers below 0, none above 0, a text that is not resolved.
std::vector<float> class_weights(const TrainFlags& flags, int classes);

}  // namespace lockstep
