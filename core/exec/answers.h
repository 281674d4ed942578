// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/preprocessing.h"

namespace lockstep {

/// exp(z_i) / sum_j exp(z_j), computed in doubles with the largest z subtracted.
std::vector<double> softmax(std::span<const float> logits);

/// The numbers that a model's raw outputs stand for: softmax's probabilities of classes and tokens;
/// sigmoid's, 1 / (1 + exp(-z)), of labels; of a table's regression value * deviation + mean, which
/// is in the table's units; other regressions as they are. outputs: [classes, labels or targets].
std::vector<double> answers_of(const data::Preprocessing& trained, std::span<const float> outputs);

/// Indices of the `count` largest values (all, where there are fewer), the largest first; equal
/// ones in ascending order, NaN last.
std::vector<std::size_t> largest(std::span<const double> values, std::size_t count);

/// What output `index` is called: the class, label or text of the token; of a regression the
/// target's column. The index itself where the record has no names.
std::string output_name(const data::Preprocessing& trained, std::size_t index);

}  // namespace lockstep
