// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

/// The commands of the program in addition to train; each takes the arguments after its name and
/// returns the exit code.
namespace lockstep {

/// Loss, accuracy and further metrics of a saved run, or of a file of weights, on the validation
/// part of its data (or of --data), on one rank or as many as a launcher started.
int evaluate_command(const std::vector<std::string>& arguments);

/// One line for each image, row of a table or text that is named: the likeliest classes, or
/// numbers. Without any, one for each sample of the validation part, with its label.
int predict_command(const std::vector<std::string>& arguments);

/// Text that a gpt continues.
int generate_command(const std::vector<std::string>& arguments);

/// Writes the weights of a run or a checkpoint as one safetensors file, and their record next to
/// it.
int export_command(const std::vector<std::string>& arguments);

}  // namespace lockstep
