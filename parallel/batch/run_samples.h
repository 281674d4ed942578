// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "lockstep/data/sources.h"
#include "lockstep/train_options.h"

namespace lockstep {

/// What the samples of a run look like. Those of an evaluation may be images of another size, and
/// those of training of several, one in each epoch.
struct RunSamples {
  std::vector<data::SampleSpec> training;  ///< Dataset::specs(): the last epoch's first
  data::SampleSpec evaluation;

  /// All alike.
  RunSamples(const data::SampleSpec& all) : training{all}, evaluation(all) {}
  RunSamples(std::vector<data::SampleSpec> of_training, data::SampleSpec of_evaluation)
      : training(std::move(of_training)), evaluation(std::move(of_evaluation)) {}

  const data::SampleSpec& last() const { return training.front(); }
};

/// Of a run on `data`, whose validation part may be missing.
RunSamples samples_of(const data::DataSplit& data);

/// Steps of a run on `training_samples`, from whichever length `options` has.
std::int64_t total_steps(const TrainOptions& options, std::int64_t training_samples);

/// `data` as a run with `options` trains on it: with images that grow, where they do. Throws
/// ConfigError: the source makes no images of other sizes.
data::DataSplit training_data(const data::DataSplit& data, const TrainOptions& options);

}  // namespace lockstep
