// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/settings/train_flags.h"
#include "lockstep/data/dataset.h"
#include "parallel/batch/fingerprint.h"

namespace lockstep {

/// "csv" of --data csv:FILE, "glyphs" of --data glyphs.
std::string_view source_kind(std::string_view data);

/// The data that the flags name; with `trained` as data::OpenOptions says of it. Throws what
/// data::open() throws.
data::DataSplit open_data(const TrainFlags& flags, const data::Preprocessing* trained = nullptr);

/// What the start of a run says of `data`: Dataset::describe(), and which columns of a table are
/// embedded, in how many values.
std::string format_data(const data::Dataset& data);

/// The loss that --loss names; of `auto`, the one that belongs to the targets: cross-entropy for
/// classes and tokens, bce for several labels a sample, mse for numbers.
/// Throws ConfigError: a loss that these targets do not fit; label smoothing or weights of classes
/// with another loss than cross-entropy; what class_weights() throws.
LossFunction make_loss(const TrainFlags& flags, const data::SampleSpec& samples);

/// What of the loss must be the same on every rank and in a resumed run.
Fingerprint loss_settings(const TrainFlags& flags, const data::SampleSpec& samples);

}  // namespace lockstep
