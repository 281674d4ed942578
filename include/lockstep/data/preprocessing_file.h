// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/data/preprocessing.h"

namespace lockstep::io {

/// The name of the file that holds a run's record of how its samples were made.
inline constexpr const char* kPreprocessingFile = "preprocessing.json";

/// The record in `file`, as a run, a checkpoint or Trainer::save() has it:
///
///   const auto record = lockstep::io::read_preprocessing(folder + "/preprocessing.json");
///   const auto model = lockstep::nn::make_model({.name = "convnet", .outputs =
///   record.samples.classes});
///
/// With the tokenizer of a record that has one, tokenizer.json next to it.
/// Throws DataError: the file cannot be read, is not such JSON or of another version, or
/// contradicts itself, naming the key; a tokenizer that is missing, or another than the record's.
data::Preprocessing read_preprocessing(const std::string& file);

}  // namespace lockstep::io
