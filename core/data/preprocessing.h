// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/data/preprocessing.h"

namespace lockstep::data {

/// What the model predicts of `target`, in the table's units: output * deviation + mean.
inline double in_units(const TargetRecord& target, double output) {
  return output * target.deviation + target.mean;
}

/// The record of a source of images: its spec and class names, and a square or other part that is
/// cut from the middle of an image whose short side has `short_side` pixels.
Preprocessing image_preprocessing(const Dataset& images, std::string source, int short_side);

/// Throws ConfigError where samples of `data` are not what `trained` says: another task, type or
/// shape, other classes or another order of them, other embedded columns or normalisation, images
/// that are resized to another short side. (Images that all have the size of a sample are not
/// resized by either rule.) `source` names the data in messages.
void check_agreement(const Preprocessing& trained,
                     const Preprocessing& data,
                     const std::string& source);

/// Throws ConfigError, naming the column, where one of a table was one-hot in the run that a
/// checkpoint is of and is embedded in `data`, or the other way round. `source` names the
/// checkpoint.
void check_same_encoding(const Preprocessing& trained,
                         const Preprocessing& data,
                         const std::string& source);

/// Throws ConfigError where a tokenizer is known of the run that a checkpoint is of, and none or
/// another of `data`. `source` names the checkpoint.
void check_same_tokenizer(const Preprocessing& trained,
                          const Preprocessing& data,
                          const std::string& source);

}  // namespace lockstep::data
