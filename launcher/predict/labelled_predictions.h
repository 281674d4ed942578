// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "launcher/predict/saved_run.h"
#include "lockstep/data/dataset.h"
#include "lockstep/job.h"

namespace lockstep {

/// What a model says of labelled samples, in their order.
struct LabelledPredictions {
  /// Of one sample with classes.
  struct Class {
    std::int32_t label = 0, predicted = 0;
    std::int32_t likelier = 0;  ///< classes that the model finds likelier than the label
  };
  std::vector<Class> classes;      ///< with classes: of each sample whose label counts
  std::vector<float> predictions;  ///< otherwise: [samples, D], the model's raw outputs
  std::vector<float> targets;      ///< [samples, D], as the model learns them
};

/// Predicts every sample of `data`; each rank a contiguous share of it, and all have the result,
/// which does not depend on the number of ranks. Samples that cannot be read are skipped where the
/// run skips bad ones. Not for tokens. Collective. Throws DataError as load() does.
LabelledPredictions predict_labelled(Job& job,
                                     const SavedRun& run,
                                     std::shared_ptr<const data::Dataset> data);

}  // namespace lockstep
